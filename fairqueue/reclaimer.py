"""Reclaimer: leases that ran out go back or die, dispatched messages nobody takes go back, old letters end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairqueue import events
from fairqueue.durations import to_ms
from fairqueue.keys import split_message_key
from fairqueue.loops import each
from fairqueue.retry import Dead, on_expiry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fairqueue.events import Events
    from fairqueue.options import FairQueueOptions
    from fairqueue.retry import RetryPolicy
    from fairqueue.store.dead_letters import DeadLetterStore
    from fairqueue.store.inflight import Expired, Inflight
    from fairqueue.store.state import State
    from fairqueue.store.worker_queues import WorkerQueueStore

CHUNK = 200


class Reclaimer:
    """The role of some shards."""

    def __init__(
        self,
        options: FairQueueOptions,
        retry_of: Callable[[str], RetryPolicy | None],
        inflight: Inflight,
        queues: WorkerQueueStore,
        dead_letters: DeadLetterStore,
        state: State,
        shards: Sequence[int],
        told: Events,
    ) -> None:
        """Collaborators are handed in."""
        self._options = options
        self._retry_of = retry_of
        self._inflight = inflight
        self._queues = queues
        self._dead_letters = dead_letters
        self._state = state
        self._shards = shards
        self._events = told

    def run_once(self) -> int:
        """Reclaim everything that ran out by now; returns leases and dispatched messages moved."""
        return each(self._shards, self._shard)

    def idle(self) -> float:
        """Seconds until the next look."""
        return float(self._options.reclaim_interval)

    def _shard(self, shard: int) -> int:
        self._state.finish_resumes(shard)
        self._state.finish_raised_limits(shard)
        if self._options.dead_letter_ttl is not None:
            self._dead_letters.age(shard, to_ms(float(self._options.dead_letter_ttl)))
        return self._leases(shard) + self._untaken(shard)

    def _leases(self, shard: int) -> int:
        total = 0
        while True:
            expired = self._inflight.expired(shard, CHUNK)
            verdicts = []
            for lease in expired:
                verdict = on_expiry(
                    self._retry_of(lease.key),
                    attempt=lease.attempt,
                    deliveries=lease.deliveries,
                    max_deliveries=self._options.max_deliveries,
                )
                verdicts.append((lease, verdict.reason if isinstance(verdict, Dead) else ""))
            done = self._inflight.reclaim(shard, verdicts) if verdicts else []
            total += sum(done)
            if self._events:
                self._report(verdicts, done)
            if len(expired) < CHUNK or not any(done):
                return total

    def _report(self, verdicts: Sequence[tuple[Expired, str]], done: Sequence[bool]) -> None:
        for (lease, reason), moved in zip(verdicts, done, strict=True):
            if moved:
                tenant_id, queue_id, message_id = split_message_key(lease.key)
                self._events.emit(
                    events.Reclaimed(
                        tenant_id=tenant_id,
                        queue_id=queue_id,
                        message_id=message_id,
                        attempt=lease.attempt,
                        dead=bool(reason),
                    )
                )

    def _untaken(self, shard: int) -> int:
        age = int(self._options.timeout * 1000)
        return sum(self._queues.give_back(shard, name, older_than_ms=age) for name in self._queues.names(shard))
