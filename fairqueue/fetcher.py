"""Fetcher: a worker's one thread that talks to the server: settles, dispatches and takes in one call."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from queue import Empty
from typing import TYPE_CHECKING

import attrs

from fairqueue.errors import StoreError, Unavailable
from fairqueue.hands import Done, plain
from fairqueue.jitter import JITTER
from fairqueue.loops import MAX_PAUSE, Failures
from fairqueue.store.inflight import MOST
from fairqueue.waiting import EVERYWHERE, LOOK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairqueue.fair_queue import FairQueue
    from fairqueue.gate import Gate
    from fairqueue.hands import Hands
    from fairqueue.message import Lease

_SLICE = 0.1  # seconds: how late a stop may be noticed


@attrs.define
class _Asking:
    """One shard and worker queue that this worker takes from."""

    shard: int
    root: str
    worker_queue: str
    call_id: str = ""
    again: bool = False  # the reply to call_id was lost: ask for the same leases
    look_at: float = 0.0  # monotonic
    more: bool = True
    pause: float = 0.0  # seconds, while calls fail
    rest_until: float = 0.0  # monotonic

    def rest(self) -> None:
        """The call failed: not again for a while, longer each time."""
        self.pause = min(MAX_PAUSE, self.pause * 2 or 0.05)
        self.rest_until = time.monotonic() + self.pause * JITTER.uniform(0.5, 1)


class Fetcher:
    """Feeds *hands* and settles what they finish, until it is drained. A shard that fails rests; the others go on."""

    name = "fairqueue.fetcher"

    def __init__(self, q: FairQueue, hands: Hands, gate: Gate, worker_queues: Sequence[str]) -> None:
        """Start nothing."""
        self._gate = gate
        self.ended = threading.Event()  # everything is settled, or given up
        self.deadline = float("inf")  # monotonic; then handlers are not waited for any more
        self._q = q
        self._hands = hands
        self._names = list(worker_queues)
        self._asking = [_Asking(shard, q.keys.root(shard), name) for shard in q.shards for name in worker_queues]
        self._finished: dict[str, Done] = {}  # by token: not settled yet
        self._draining = False
        self._failures = Failures(self.name, q.events)
        self._thread: threading.Thread | None = None

    def tend(self) -> None:
        """Start the thread; again, should it have died."""
        if not self.ended.is_set() and (self._thread is None or not self._thread.is_alive()):
            self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            self._thread.start()

    @property
    def healthy(self) -> bool:
        """Whether its thread is alive and its last call to every shard worked."""
        return self._thread is not None and self._thread.is_alive() and not self._failures.failing

    @property
    def draining(self) -> bool:
        """Whether it has been told to end."""
        return self._draining

    def drain(self, deadline: float) -> None:
        """Take no more; end when everything is settled, or at *deadline* (monotonic) without waiting for handlers."""
        self.deadline = min(self.deadline, deadline)
        self._draining = True
        self._hands.drain()
        self._hands.wake()

    def join(self) -> None:
        """Wait for its end."""
        while not self.ended.wait(0.5):
            self.tend()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self.ended.is_set():
            try:
                self._round()
            except BaseException as error:  # noqa: BLE001 - what finished is kept and tried again; the loop lives
                self._hands.mend(self._finished)
                time.sleep(self._failures.note(error))

    def _round(self) -> None:
        self._collect()
        late = time.monotonic() >= self.deadline
        if self._draining and late:
            self._abandon()
        failed = self._ask_all(late=late)
        open_ends = self._hands.held or self._finished or any(asking.again for asking in self._asking)
        if self._draining and ((late and failed) or not open_ends):
            self._forget_channel()
            self.ended.set()  # after a failure the leases run out by themselves

    def _collect(self) -> None:
        """Wait until something finished, somebody woke us or it is time to look; then take all there is."""
        wait = 0.0 if self._hands.done else self._wait()
        with suppress(Empty):
            root = self._hands.news.get(timeout=wait) if wait > 0 else self._hands.news.get_nowait()
            while True:
                for asking in self._asking if root is not None else ():
                    asking.more = asking.more or root in {asking.root, EVERYWHERE}
                root = self._hands.news.get_nowait()
        while self._hands.done:
            self._finish(self._hands.done[0])  # kept there until it is here
            self._hands.done.popleft()

    def _finish(self, item: Done) -> None:
        token = item.delivery.token
        if token in self._hands.held or token in self._hands.overdue:  # else it was settled meanwhile
            self._finished.setdefault(token, item)

    def _wait(self) -> float:
        now = time.monotonic()
        closed = self._gate.wait
        free = self._hands.room() > 0 and not self._draining and not closed
        shards = {item.delivery.shard for item in self._finished.values()}
        wait = _SLICE if self._draining else min(closed or 1.0, 1.0)
        for asking in self._asking:
            if asking.shard in shards or asking.again or (free and asking.more):
                wait = min(wait, asking.rest_until - now)
            elif free:
                wait = min(wait, max(asking.look_at, asking.rest_until) - now)
        return wait

    def _ask_all(self, *, late: bool) -> bool:
        """One call for each shard that has something to settle or to give; whether one failed."""
        now = time.monotonic()
        failed = False
        for asking in self._in_order():
            if asking.rest_until > now and not late:
                continue
            here = [item for item in self._finished.values() if item.delivery.shard == asking.shard][:MOST]
            free = 0 if self._draining or self._gate.wait else self._hands.room(here)
            want = free if here or asking.more or asking.look_at <= now else 0
            want = max(want, 1) if asking.again else max(want, 0)  # a lost reply may hold leases: asked for again
            if not here and want == 0:
                continue
            try:
                leases = self._step(asking, here, want)
            except Exception as error:  # noqa: BLE001 - other shards go on
                failed = True
                asking.rest()
                self._failures.note(error)
                if time.monotonic() >= self.deadline:
                    break
                continue
            asking.pause = 0.0
            for item in here:
                self._finished.pop(item.delivery.token, None)
                self._hands.forget(item.delivery)
            taken = self._q.consumer.deliveries(leases, asking.shard)
            admitted = self._gate.admit(taken)
            asking.more = asking.more or len(admitted) < len(taken)  # what went back is asked for when the gate opens
            for delivery in admitted:
                self._hands.give(delivery)
        self._names.append(self._names.pop(0))  # turn about between worker queues
        if not any(asking.pause for asking in self._asking):
            self._failures.ok()
        return failed

    def _in_order(self) -> list[_Asking]:
        """Worker queues in turn; of each, the shard with the lowest clock first."""
        if len(self._asking) == 1:
            return self._asking
        by_place = {(asking.worker_queue, asking.shard): asking for asking in self._asking}
        return [
            by_place[name, shard]
            for name in self._names
            for shard in self._q.consumer.order(name).order(self._q.shards)
        ]

    def _step(self, asking: _Asking, items: list[Done], want: int) -> Sequence[Lease]:
        settlements = [item.settlement for item in items if item.settlement is not None]
        order = self._q.consumer.order(asking.worker_queue)
        if not asking.again:
            asking.call_id = self._q.names.next()
        try:
            step = self._q.leases.step(
                asking.shard,
                asking.worker_queue,
                settlements=settlements,
                want=want,
                call_id=asking.call_id,
                again=asking.again,
                timeout_ms=self._q.crew.timeout_ms,
                worker=self._q.names.process,
                channel=self._q.wakeups().channel,
                look_ms=int(LOOK * 1000),
                floor=order.floor(asking.shard),
            )
        except BaseException as error:
            if not isinstance(error, Unavailable | StoreError):
                asking.again = True  # it may have been done
            raise
        asking.again = False
        if want:  # else it was not asked
            asking.more = step.more
            order.note(asking.shard, step.clock, busy=step.more)
            asking.look_at = time.monotonic() + (LOOK if step.next_due is None else min(LOOK, step.next_due + 0.001))
        confirm(self._q, [item for item in items if item.settlement is not None], step.settled)
        return step.leases

    def _abandon(self) -> None:
        """Grace is over: what still runs is released and the rest handed back, for other workers at once."""
        running = self._hands.running
        for token, delivery in list(self._hands.held.items()):
            if token not in self._finished:
                delivery.lost.set()
                self._finished[token] = Done(delivery, plain("release" if token in running else "hand_back", delivery))

    def _forget_channel(self) -> None:
        try:
            for asking in self._asking:
                self._q.leases.stop_waiting(asking.shard, asking.worker_queue, self._q.wakeups().channel)
        except Exception as error:  # noqa: BLE001 - it expires by itself
            self._failures.note(error)


def confirm(q: FairQueue, items: Sequence[Done], settled: Sequence[bool]) -> None:
    """Note what the server said to settlements."""
    for item, done in zip(items, settled, strict=True):
        if done and item.settlement is not None:
            item.delivery.settled = True
            q.settler.settled(item.settlement, item.delivery.attempt)
        elif not done:
            item.delivery.lost.set()
            q.settler.lost(item.delivery.key)
