"""Leases: take, beat, settle, reclaim. One method a script."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from fairqueue.ids import quote
from fairqueue.message import Lease, read_lease

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fairqueue.connection import Argument
    from fairqueue.discards import Discards
    from fairqueue.keys import Keys
    from fairqueue.scripts import Scripts


MOST = 100  # messages taken or settled in one call: the server serves nobody else meanwhile


@attrs.frozen(kw_only=True)
class Settlement:
    """How one delivery ends: *verb* is complete, retry, bury, release or hand_back."""

    verb: str
    key: str
    token: str
    delay_ms: int = 0
    reason: str = ""
    kind: str = ""
    text: str = attrs.field(default="", repr=False)


@attrs.frozen(kw_only=True)
class Step:
    """The answer to a worker's main call."""

    settled: Sequence[bool]
    leases: Sequence[Lease]
    more: bool
    next_due: float | None  # seconds
    clock: float  # virtual time on the scale of all shards


@attrs.frozen(kw_only=True)
class Expired:
    """A lease past its deadline."""

    key: str
    token: str
    attempt: int
    deliveries: int


def _flat(settlements: Iterable[Settlement]) -> list[Argument]:
    flat: list[Argument] = []
    for s in settlements:
        flat += (s.verb, s.key, s.token, s.delay_ms, s.reason, s.kind, s.text)
    return flat


@attrs.frozen
class Inflight:
    """Deliveries of one namespace."""

    keys: Keys
    scripts: Scripts
    discards: Discards

    def step(
        self,
        shard: int,
        worker_queue: str,
        *,
        settlements: Sequence[Settlement] = (),
        want: int,
        call_id: str,
        timeout_ms: int,
        worker: str = "",
        channel: str = "",
        look_ms: int = 5000,
        floor: float | None = None,
        again: bool = False,
    ) -> Step:
        """Settle what finished, dispatch, take up to *want* messages (never more than MOST): one round trip.

        *floor*: see `fairqueue.shard_order`. *again*: the reply to this *call_id* was lost earlier; its leases are
        given once more.
        """
        settled, leases, more, next_due, clock = self.scripts.call(
            "step",
            self.keys.root(shard),
            _flat(settlements),
            call_id=call_id,
            pool=quote(worker_queue),
            want=min(want, MOST),
            timeout=timeout_ms,
            worker=worker,
            channel=channel,
            look=look_ms,
            floor="" if floor is None else floor,
            again="1" if again else "0",
        )
        self.discards.tell(settled[len(settlements) :])
        return Step(
            settled=[done == 1 for done in settled[: len(settlements)]],
            leases=[read_lease(*leases[i : i + 4]) for i in range(0, len(leases), 4)],
            more=more == 1,
            next_due=None if next_due < 0 else next_due / 1000,
            clock=float(clock),
        )

    def stop_waiting(self, shard: int, worker_queue: str, channel: str) -> None:
        """Do not wake this channel any more."""
        command = ("ZREM", self.keys.part(shard, "idle:" + quote(worker_queue)), channel)
        self.scripts.connection.call(self.keys.root(shard), lambda _: command, repeatable=True)

    def settle(self, shard: int, settlements: Sequence[Settlement]) -> list[bool]:
        """End deliveries; False where the token holds the lease no longer."""
        done: list[bool] = []
        for i in range(0, len(settlements), MOST):
            chunk = settlements[i : i + MOST]
            reply = self.scripts.call("settle", self.keys.root(shard), _flat(chunk))
            self.discards.tell(reply[len(chunk) :])
            done += [one == 1 for one in reply[: len(chunk)]]
        return done

    def heartbeat(self, shard: int, leases: Sequence[tuple[str, str]], timeout_ms: int) -> list[bool]:
        """Move deadlines out; *leases* are (key, token). False where the lease is lost."""
        flat = [part for lease in leases for part in lease]
        reply = self.scripts.call("heartbeat", self.keys.root(shard), flat, timeout=timeout_ms)
        return [beaten == 1 for beaten in reply]

    def expired(self, shard: int, limit: int) -> list[Expired]:
        """Leases past their deadline, the oldest first."""
        reply = self.scripts.call("expired", self.keys.root(shard), limit=limit)
        return [
            Expired(key=reply[i].decode(), token=reply[i + 1].decode(), attempt=reply[i + 2], deliveries=reply[i + 3])
            for i in range(0, len(reply), 4)
        ]

    def reclaim(self, shard: int, verdicts: Sequence[tuple[Expired, str]]) -> list[bool]:
        """End expired leases: a reason makes one dead, '' puts it back. False where one is not expired any more."""
        flat = [part for lease, reason in verdicts for part in (lease.key, lease.token, reason)]
        reply = self.scripts.call("reclaim", self.keys.root(shard), flat)
        self.discards.tell(reply[len(verdicts) :])
        return [done == 1 for done in reply[: len(verdicts)]]
