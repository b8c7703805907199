"""Consumer: taking deliveries, for a Worker and for those with a loop of their own."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import attrs

from fairqueue.delivery import Delivery
from fairqueue.errors import FairQueueError, PayloadError
from fairqueue.ids import check_id
from fairqueue.keys import message_key
from fairqueue.message import Lease, read_lease
from fairqueue.shard_order import ShardOrder
from fairqueue.store.inflight import MOST
from fairqueue.waiting import LOOK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fairqueue.delivery import Crew
    from fairqueue.opening import Opening
    from fairqueue.resolver import Names, Resolver
    from fairqueue.store.inflight import Step
    from fairqueue.store.state import State
    from fairqueue.waiting import Wakeups


@attrs.frozen
class Consumer:
    """Takes for one process."""

    crew: Crew
    names: Names
    resolver: Resolver
    state: State
    opened: Opening
    shards: range
    wakeups: Callable[[], Wakeups]
    _orders: dict[str, ShardOrder] = attrs.field(factory=dict, init=False)  # by worker queue

    def receive(self, worker_queue: str, n: int, wait: float) -> list[Delivery]:
        """Up to *n* deliveries, waiting up to *wait* seconds for the first."""
        found, _ = self._take(worker_queue, n, "")
        if found or wait <= 0:
            return found
        end = time.monotonic() + wait
        woken = threading.Event()

        def wake(_: str) -> None:
            woken.set()

        wakeups = self.wakeups()
        wakeups.register(wake)
        try:
            while True:
                woken.clear()
                found, next_due = self._take(worker_queue, n, wakeups.channel)
                left = end - time.monotonic()
                if found or left <= 0:
                    return found
                woken.wait(min(left, LOOK, LOOK if next_due is None else next_due + 0.001))
        finally:
            wakeups.unregister(wake)
            with suppress(FairQueueError):  # it expires by itself; what was found must not be lost for it
                for shard in self.shards:
                    self.crew.inflight.stop_waiting(shard, worker_queue, wakeups.channel)

    def _take(self, worker_queue: str, n: int, channel: str) -> tuple[list[Delivery], float | None]:
        found: list[Delivery] = []
        next_due: float | None = None
        order = self.order(worker_queue)
        for shard in order.order(self.shards):
            more = True
            try:
                while more and len(found) < n:  # a call takes a bounded number, or only parks what is blocked
                    step = self._step(shard, worker_queue, n - len(found), channel)
                    found += self.deliveries(step.leases, shard)
                    more = step.more and len(step.leases) in {0, MOST}
            except FairQueueError:
                if found:  # by an earlier call: they are leased, and go to the caller
                    return found, 0.0
                raise
            if step.next_due is not None:
                next_due = step.next_due if next_due is None else min(next_due, step.next_due)
            if len(found) >= n:
                break
        return found, next_due

    def _step(self, shard: int, worker_queue: str, n: int, channel: str) -> Step:
        order = self.order(worker_queue)
        step = self.crew.inflight.step(
            self.opened(shard),
            worker_queue,
            want=n,
            call_id=self.names.next(),
            timeout_ms=self.crew.timeout_ms,
            worker=self.names.process,
            channel=channel,
            look_ms=int(LOOK * 1000),
            floor=order.floor(shard),
        )
        order.note(shard, step.clock, busy=step.more)
        return step

    def order(self, worker_queue: str) -> ShardOrder:
        """What this process knows of the clocks of a worker queue."""
        known = self._orders.get(worker_queue)
        if known is None:
            known = self._orders.setdefault(worker_queue, ShardOrder(self.shards))
        return known

    def deliveries(self, leases: Iterable[Lease], shard: int) -> list[Delivery]:
        """Deliveries of leases; what cannot be read goes to the dead letters, its bytes kept."""
        found = []
        for lease in leases:
            try:
                found.append(self.crew.delivery(lease, shard))
            except PayloadError as error:
                with suppress(FairQueueError):  # else its lease runs out, and it comes again
                    self.crew.settler.settle(shard, self.crew.unreadable(lease, error))
        return found

    def delivery(self, tenant_id: str, queue_id: str, message_id: str, token: str) -> Delivery:
        """A delivery by its token; settling it says whether the token still holds."""
        shard = self.opened(self.resolver.shard(tenant_id))
        check_id("queue_id", queue_id)
        check_id("message_id", message_id)
        key = message_key(tenant_id, queue_id, message_id)
        reply = self.state.whereabouts(shard, tenant_id, queue_id, message_id)
        if not reply:
            gone = Lease(key=key, token=token, deliveries=1, attempt=1, enqueued_ms=0, order_ms=0, body=b"")
            return Delivery(gone, None, None, shard, self.crew)
        return self.crew.delivery(read_lease(key.encode(), token.encode(), reply[1], int(reply[3])), shard)
