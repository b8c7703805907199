"""A delivery: one message in the hands of one worker, for as long as its lease holds."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from fairqueue.durations import seconds
from fairqueue.keys import split_message_key
from fairqueue.message import Lease, moment, unpack_body
from fairqueue.settlement import Settler, lease_lost
from fairqueue.store.inflight import Settlement

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from fairqueue.payload import Codec
    from fairqueue.retry import RetryPolicy
    from fairqueue.store.inflight import Inflight


class Delivery:
    """What a handler is given.

    `lost` is set when the lease is known to be gone, `cancelled` when the message was cancelled.
    A delivery from `receive()` is not beaten by anybody: call `heartbeat()` or settle it within the
    visibility timeout. A Worker beats its own.
    """

    def __init__(  # noqa: D107 - made by FairQueue
        self, lease: Lease, payload: Any, metadata: dict[str, Any] | None, shard: int, crew: Crew
    ) -> None:
        self.tenant_id, self.queue_id, self.id = split_message_key(lease.key)
        self.key = lease.key
        self.token = lease.token
        self.attempt = lease.attempt
        self.deliveries = lease.deliveries
        self.payload = payload
        self.metadata: dict[str, Any] = metadata or {}
        self.shard = shard
        self.settled = False
        self.outcome: Settlement | None = None  # what a handler decided; None: complete when it returns
        self.retry: RetryPolicy | None = None  # what a handler chose for its failures; None: the queue's
        self.lost = threading.Event()
        self.cancelled = threading.Event()
        self._enqueued_ms = lease.enqueued_ms
        self._crew = crew

    def __repr__(self) -> str:
        """Ids only."""
        return f"<Delivery {self.key} attempt={self.attempt} deliveries={self.deliveries}>"

    @property
    def enqueued_at(self) -> datetime:
        """When the message was accepted, by the server's clock."""
        return moment(self._enqueued_ms)

    def complete(self) -> None:
        """Done: the message is gone and its slots are free when this returns.

        Raises:
            LeaseLost: it is no longer this delivery's; nothing changed.
            Unavailable, OutcomeUnknown: the server did not answer; call again.
        """
        self._settle(Settlement(verb="complete", key=self.key, token=self.token))

    def fail(
        self, error: BaseException | str | None = None, *, retry_in: float | timedelta | None = None, dead: bool = False
    ) -> None:
        """The attempt failed: retry as the policy says (or in *retry_in* seconds), or to the dead letters.

        Raises:
            LeaseLost: it is no longer this delivery's; nothing changed.
        """
        self._settle(self.failure(error, retry_in=retry_in, dead=dead))

    def release(self, delay: float | timedelta = 0) -> None:
        """Not now: to the back of its queue, or due in *delay* seconds. Not a failure; the attempt stays.

        Raises:
            LeaseLost: it is no longer this delivery's; nothing changed.
        """
        ms = int(seconds("delay", delay) * 1000 + 0.999)
        self._settle(Settlement(verb="release", key=self.key, token=self.token, delay_ms=ms))

    def heartbeat(self) -> None:
        """Hold the lease for another visibility timeout from now.

        Raises:
            LeaseLost: it is no longer this delivery's.
        """
        if (
            self.lost.is_set()
            or not self._crew.inflight.heartbeat(self.shard, [(self.key, self.token)], self._crew.timeout_ms)[0]
        ):
            self.lost.set()
            raise lease_lost(self.key)

    def failure(self, error: object, *, retry_in: float | timedelta | None = None, dead: bool = False) -> Settlement:
        """The settlement a failure comes to, not carried out yet."""
        return self._crew.settler.failure(
            self.key,
            self.token,
            self.attempt,
            self.deliveries,
            error,
            retry_in=retry_in,
            dead=dead,
            policy=self.retry,
        )

    def _settle(self, settlement: Settlement) -> None:
        if self.settled:
            return
        self._crew.settler.settle(self.shard, settlement)
        self.settled = True


class Crew:
    """What deliveries of one FairQueue share."""

    def __init__(self, inflight: Inflight, settler: Settler, codec: Codec, timeout_ms: int) -> None:
        """Collaborators are handed in."""
        self.inflight = inflight
        self.settler = settler
        self.codec = codec
        self.timeout_ms = timeout_ms

    def delivery(self, lease: Lease, shard: int) -> Delivery:
        """The delivery of a lease.

        Raises:
            PayloadError: what is stored cannot be read.
        """
        raw, metadata = unpack_body(lease.body)
        return Delivery(lease, self.codec.decode(raw), metadata, shard, self)

    def unreadable(self, lease: Lease, error: Exception) -> Settlement:
        """What a message comes to that cannot be read: to the dead letters, its bytes kept."""
        return Settlement(
            verb="bury",
            key=lease.key,
            token=lease.token,
            reason="unreadable",
            kind="PayloadError",
            text=str(error)[:500],
        )
