"""Settlement: what a finished delivery comes to. Policy decides, one script writes it down."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from fairqueue import events
from fairqueue.durations import seconds
from fairqueue.errors import Bury, LeaseLost, Retry, describe
from fairqueue.keys import split_message_key
from fairqueue.retry import Dead, decide
from fairqueue.store.inflight import Settlement

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from fairqueue.events import Events
    from fairqueue.options import FairQueueOptions
    from fairqueue.retry import RetryPolicy
    from fairqueue.store.inflight import Inflight

REMEMBERED = 4096  # deliveries this process settled lately: settling one again is success


class Settler:
    """Decides and carries out how deliveries end."""

    def __init__(
        self,
        options: FairQueueOptions,
        retry_of: Callable[[str], RetryPolicy | None],
        inflight: Inflight,
        told: Events,
    ) -> None:
        """Collaborators are handed in."""
        self._options = options
        self._retry_of = retry_of
        self._inflight = inflight
        self._events = told
        self._done: OrderedDict[str, None] = OrderedDict()

    def failure(
        self,
        key: str,
        token: str,
        attempt: int,
        deliveries: int,
        error: object,
        *,
        retry_in: float | timedelta | None = None,
        dead: bool = False,
        policy: RetryPolicy | None = None,
    ) -> Settlement:
        """What a failed delivery comes to: retry after a delay, or dead. *policy*: instead of the queue's."""
        kind, text = describe(error)
        if isinstance(error, Bury):
            return Settlement(
                verb="bury", key=key, token=token, reason=error.reason[:200] or "buried", kind=kind, text=text
            )
        if isinstance(error, Retry):
            retry_in = error.after if retry_in is None else retry_in
        if dead:
            return Settlement(verb="bury", key=key, token=token, reason="not retryable", kind=kind, text=text)
        limit = self._options.max_deliveries
        if retry_in is not None and (limit is None or deliveries < limit):
            delay = seconds("retry_in", retry_in)
        else:
            verdict = decide(
                policy or self._retry_of(key),
                attempt=attempt,
                deliveries=deliveries,
                max_deliveries=limit,
                error=error if isinstance(error, BaseException) else None,
            )
            if isinstance(verdict, Dead):
                return Settlement(verb="bury", key=key, token=token, reason=verdict.reason, kind=kind, text=text)
            delay = verdict.delay
        return Settlement(verb="retry", key=key, token=token, delay_ms=int(delay * 1000 + 0.999), kind=kind, text=text)

    def settle(self, shard: int, settlement: Settlement) -> None:
        """Carry out one settlement now.

        Raises:
            LeaseLost: the token holds the message no longer; nothing changed.
            Unavailable, OutcomeUnknown: the server did not answer.
        """
        if settlement.token in self._done:
            return
        if not self._inflight.settle(shard, [settlement])[0]:
            self.lost(settlement.key)
            raise lease_lost(settlement.key)
        self._done[settlement.token] = None
        if len(self._done) > REMEMBERED:
            self._done.popitem(last=False)
        self.settled(settlement)

    def settled(self, settlement: Settlement, attempt: int = 0) -> None:
        """Tell the hooks of a settlement the server has confirmed."""
        if self._events:
            tenant_id, queue_id, message_id = split_message_key(settlement.key)
            self._events.emit(
                events.Settled(
                    tenant_id=tenant_id,
                    queue_id=queue_id,
                    message_id=message_id,
                    outcome=settlement.verb,
                    attempt=attempt,
                    reason=settlement.reason,
                )
            )

    def lost(self, key: str) -> None:
        """Tell the hooks of a lease that is gone."""
        if self._events:
            tenant_id, queue_id, message_id = split_message_key(key)
            self._events.emit(events.Lost(tenant_id=tenant_id, queue_id=queue_id, message_id=message_id))


def lease_lost(key: str) -> LeaseLost:
    """The error for a delivery that is no longer ours."""
    tenant_id, queue_id, message_id = split_message_key(key)
    text = (
        f"message {message_id!r} of queue {queue_id!r}, tenant {tenant_id!r}, is no longer this delivery's: "
        "its lease ran out and was reclaimed, or it was settled already. "
        "Nothing was changed; drop the work or make it idempotent"
    )
    return LeaseLost(text, tenant_id=tenant_id, queue_id=queue_id, message_id=message_id)
