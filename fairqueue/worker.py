"""Worker: a pool of threads around a handler. One fetcher settles, dispatches and takes in one call."""

from __future__ import annotations

import os
import signal
import threading
import time
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

import attrs

from fairqueue import events, failpoints
from fairqueue.durations import seconds, whole
from fairqueue.errors import ConfigurationError, OutcomeUnknown
from fairqueue.ids import check_id
from fairqueue.loops import Failures
from fairqueue.pauses import LATELY
from fairqueue.store.inflight import MOST, Settlement
from fairqueue.waiting import LOOK

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

    from fairqueue.delivery import Delivery
    from fairqueue.fair_queue import FairQueue
    from fairqueue.message import Lease

_SLICE = 0.1  # seconds: how late a stop may be noticed


@attrs.define
class _Done:
    """A delivery that left its thread, and what it comes to (None: settled by the handler itself)."""

    delivery: Delivery
    settlement: Settlement | None


@attrs.define
class _Asking:
    """One shard and worker queue that this worker takes from."""

    shard: int
    worker_queue: str
    call_id: str = ""
    again: bool = False  # the reply to call_id was lost: ask for the same leases
    look_at: float = 0.0  # monotonic
    more: bool = True


class Worker:
    """Runs *handler* on deliveries in *threads* threads.

    The handler returns: complete; raises: fail; raises `Retry` or `Bury`: as they say. Leases are beaten
    while it runs. `run()` blocks and drains on SIGTERM or SIGINT; a second one hurries.

    Args:
        q: the queue; stays the caller's.
        handler: called with a `Delivery`.
        worker_queue: one name, or several that are asked in turn.
        threads: handlers at once, 1 to 1000.
        prefetch: deliveries taken ahead; faster, at the price of later decisions.
        grace: seconds a stop waits for handlers that run.
        dispatch: run the queue's own loops too (dispatcher, reclaimer, sweeper).
    """

    def __init__(  # noqa: D107 - above
        self,
        q: FairQueue,
        handler: Callable[[Delivery], object],
        *,
        worker_queue: str | Sequence[str] = "default",
        threads: int = 8,
        prefetch: int = 0,
        grace: float | timedelta = 30,
        dispatch: bool = True,
    ) -> None:
        if not callable(handler):
            raise ConfigurationError(f"handler {type(handler).__name__} is not callable")
        names = [worker_queue] if isinstance(worker_queue, str) else list(worker_queue)
        if not names:
            raise ConfigurationError("worker_queue: at least one name is needed")
        self._q = q
        self._handler = handler
        self._names = [check_id("worker_queue", name) for name in names]
        self._threads = whole("threads", threads, minimum=1, maximum=1000)
        self._capacity = self._threads + whole("prefetch", prefetch, minimum=0, maximum=1000)
        self._grace = seconds("grace", grace, error=ConfigurationError)
        self._dispatch = dispatch
        self._failures = Failures("fairqueue.worker", q.events)
        self._reset()

    def _reset(self) -> None:
        """As before the first start; nothing of an earlier run, or of a parent process, is kept."""
        self._pid = os.getpid()
        self._inbox: SimpleQueue[tuple[Delivery, float] | None] = SimpleQueue()  # and when it was taken
        self._done: SimpleQueue[_Done | None] = SimpleQueue()
        self._asking = [_Asking(shard, name) for shard in self._q.shards for name in self._names]
        self._held: dict[str, Delivery] = {}  # by token; the fetcher adds and removes, the beater reads copies
        self._begun: dict[str, float] = {}  # by token; when its handler began
        self._draining = threading.Event()  # take no more, start no more
        self._hurry = threading.Event()  # do not wait for handlers either
        self._ended = threading.Event()  # the fetcher has settled everything
        self._pool: list[threading.Thread] = []
        self._others: list[threading.Thread] = []
        self._deadline = float("inf")

    # -- life

    def run(self) -> None:
        """Work until a signal or `stop()`; returns when drained."""
        previous = {}
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                previous[number] = signal.signal(number, lambda *_: self._signalled())
        try:
            self.start()
            while not self._draining.wait(0.5):
                pass
            self.stop()
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def start(self) -> None:
        """Start the threads and return."""
        if self._pool and self._pid == os.getpid():
            return
        if self._pid != os.getpid() or self._ended.is_set():
            self._reset()
        for shard in self._q.shards:
            self._q.opened(shard)
        if self._dispatch:
            self._q.start()
        self._q.wakeups().register(self._wake)
        self._pool = [self._thread(self._work, f"fairqueue.worker-{i}") for i in range(self._threads)]
        self._others = [
            self._thread(self._fetch, "fairqueue.fetcher"),
            self._thread(self._beat, "fairqueue.heartbeat"),
        ]

    def stop(self, timeout: float | timedelta | None = None) -> None:
        """Take no more, wait for running handlers (*timeout*, else grace), give the rest back, end the threads."""
        if not self._pool or self._pid != os.getpid():
            return
        self._deadline = time.monotonic() + (self._grace if timeout is None else seconds("timeout", timeout))
        self._draining.set()
        self._wake()
        self._ended.wait()
        for _ in self._pool:
            self._inbox.put(None)
        for thread in self._others:
            thread.join()
        for thread in self._pool:
            thread.join(0.5)  # one whose handler does not end is left behind; its lease is gone
        self._pool, self._others = [], []
        self._q.wakeups().unregister(self._wake)
        if self._dispatch:
            self._q.stop()

    def health(self) -> dict[str, bool]:
        """Whether each thread is alive, the queue's loops included."""
        return {t.name: t.is_alive() for t in [*self._pool, *self._others]} | self._q.health()

    def run_once(self) -> int:
        """Take what is ready now, up to one for each thread, handle it here, settle it; how many.

        Starts no thread, so nothing beats the leases meanwhile.
        """
        handled = 0
        for asking in self._in_order():
            self._q.opened(asking.shard)
            leases = self._step(asking, [], self._threads - handled, register=False)
            while not leases and asking.more:  # that call only parked what is blocked
                leases = self._step(asking, [], self._threads - handled, register=False)
            done = []
            for delivery in self._q.consumer.deliveries(leases, asking.shard):
                done.append(self._handle(delivery))
                handled += 1
            settlements = [item for item in done if item.settlement is not None]
            if settlements:
                self._settle(asking.shard, settlements)
            if handled >= self._threads:
                break
        self._names.append(self._names.pop(0))
        return handled

    def _signalled(self) -> None:
        if self._draining.is_set():
            self._hurry.set()
        self._draining.set()

    def _wake(self) -> None:
        self._done.put(None)

    def _thread(self, target: Callable[[], None], name: str) -> threading.Thread:
        thread = threading.Thread(target=target, name=name, daemon=True)
        thread.start()
        return thread

    def _replace_dead(self) -> None:
        for i, thread in enumerate(self._pool):
            if not thread.is_alive():
                self._pool[i] = self._thread(self._work, thread.name)

    # -- handlers

    def _work(self) -> None:
        while (item := self._inbox.get()) is not None:
            delivery, taken_at = item
            if self._draining.is_set() or self._paused(delivery, taken_at):
                self._done.put(_Done(delivery, _plain("hand_back", delivery)))
            else:
                self._done.put(self._handle(delivery))

    def _handle(self, delivery: Delivery) -> _Done:
        self._begun[delivery.token] = time.monotonic()
        if self._q.events:
            self._q.events.emit(
                events.Started(
                    tenant_id=delivery.tenant_id,
                    queue_id=delivery.queue_id,
                    message_id=delivery.id,
                    attempt=delivery.attempt,
                )
            )
        try:
            if failpoints.reached is not None:
                failpoints.reached("handler:before")
            self._handler(delivery)
            if failpoints.reached is not None:
                failpoints.reached("handler:after")
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its message's failure
            settlement = self._failure(delivery, error)
        else:
            settlement = delivery.outcome or _plain("complete", delivery)
        self._begun.pop(delivery.token, None)
        return _Done(delivery, None if delivery.settled else settlement)

    def _paused(self, delivery: Delivery, taken_at: float) -> bool:
        """Whether its tenant or queue was paused while it waited for a thread (prefetch)."""
        if time.monotonic() - taken_at < LATELY:
            return False
        return self._q.pauses.hold(delivery.shard, delivery.tenant_id, delivery.queue_id)

    @staticmethod
    def _failure(delivery: Delivery, error: BaseException) -> Settlement:
        try:
            return delivery.failure(error)
        except Exception as trouble:  # noqa: BLE001 - such as Retry(after="soon")
            return delivery.failure(f"{type(error).__name__}, and then {trouble}"[:500])

    # -- the fetcher

    def _fetch(self) -> None:
        """Until drained: collect what finished, then settle it and take as much as threads are free, in one call."""
        finished: list[_Done] = []
        while True:
            late = False
            try:
                self._collect(finished)
                self._replace_dead()
                late = self._hurry.is_set() or time.monotonic() >= self._deadline
                if self._draining.is_set():
                    if late:
                        self._abandon(finished)
                    if not self._held and not finished:
                        break
                self._round(finished)
                self._failures.ok()
            except BaseException as error:  # noqa: BLE001 - what finished is kept and tried again; the loop lives
                pause = self._failures.note(error)
                if self._draining.is_set() and late:
                    break  # the leases run out by themselves
                time.sleep(pause)
        self._forget_channel()
        self._ended.set()

    def _collect(self, finished: list[_Done]) -> None:
        """Wait until something finished, somebody woke us or it is time to look; then take all there is."""
        wait = 0.0
        if not finished:
            now = time.monotonic()
            free = self._capacity - len(self._held)
            looks = [0.0 if a.more else a.look_at - now for a in self._asking] if free > 0 else [LOOK]
            wait = _SLICE if self._draining.is_set() else min(1.0, max(0.0, min(looks)))
        try:
            item = self._done.get(timeout=wait) if wait > 0 else self._done.get_nowait()
            while True:
                if item is None:
                    for asking in self._asking:
                        asking.more = True
                else:
                    finished.append(item)
                item = self._done.get_nowait()
        except Empty:
            return

    def _round(self, finished: list[_Done]) -> None:
        """One call for each shard that has something to settle or to give."""
        now = time.monotonic()
        for asking in self._in_order():
            here = [item for item in finished if item.delivery.shard == asking.shard][:MOST]
            free = 0 if self._draining.is_set() else self._capacity - len(self._held) + len(here)
            want = free if here or asking.more or asking.look_at <= now else 0
            want = max(want, 1) if asking.again else want  # a lost reply may hold leases: they are asked for again
            if not here and want <= 0:
                continue
            leases = self._step(asking, here, max(want, 0), register=True)
            for item in here:
                finished.remove(item)
                self._held.pop(item.delivery.token, None)
            for delivery in self._q.consumer.deliveries(leases, asking.shard):
                self._held[delivery.token] = delivery
                self._inbox.put((delivery, time.monotonic()))
        self._names.append(self._names.pop(0))  # turn about between worker queues

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

    def _step(self, asking: _Asking, items: list[_Done], want: int, *, register: bool) -> Sequence[Lease]:
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
                channel=self._q.wakeups().channel if register else "",
                look_ms=int(LOOK * 1000),
                floor=order.floor(asking.shard),
            )
        except OutcomeUnknown:
            asking.again = True
            raise
        asking.again = False
        asking.more = step.more
        if want:
            order.note(asking.shard, step.clock, busy=step.more)
        asking.look_at = time.monotonic() + (LOOK if step.next_due is None else min(LOOK, step.next_due + 0.001))
        self._confirm([item for item in items if item.settlement is not None], step.settled)
        return step.leases

    def _settle(self, shard: int, items: list[_Done]) -> None:
        settled = self._q.leases.settle(shard, [item.settlement for item in items if item.settlement is not None])
        self._confirm(items, settled)

    def _confirm(self, items: list[_Done], settled: Sequence[bool]) -> None:
        for item, done in zip(items, settled, strict=True):
            if done and item.settlement is not None:
                item.delivery.settled = True
                self._q.settler.settled(item.settlement, item.delivery.attempt)
            elif not done:
                item.delivery.lost.set()
                self._q.settler.lost(item.delivery.key)

    def _abandon(self, finished: list[_Done]) -> None:
        """Grace is over: what still runs is released and the rest handed back, for other workers at once."""
        already = {item.delivery.token for item in finished}
        for token, delivery in list(self._held.items()):
            if token not in already:
                delivery.lost.set()
                verb = "release" if token in self._begun else "hand_back"
                finished.append(_Done(delivery, _plain(verb, delivery)))

    def _forget_channel(self) -> None:
        try:
            for asking in self._asking:
                self._q.leases.stop_waiting(asking.shard, asking.worker_queue, self._q.wakeups().channel)
        except Exception as error:  # noqa: BLE001 - it expires by itself
            self._failures.note(error)

    # -- heartbeats

    def _beat(self) -> None:
        """Hold the leases of everything in hand, until the fetcher has settled it all."""
        every = self._q.options.beat_every
        limit = self._q.options.max_run_time
        max_run = None if limit is None else seconds("max_run_time", limit)
        while not self._ended.wait(every):
            now = time.monotonic()
            for shard in self._q.shards:
                held = [
                    d for d in list(self._held.values()) if d.shard == shard and not d.settled and not d.lost.is_set()
                ]
                if max_run is not None:
                    for delivery in held:
                        if now - self._begun.get(delivery.token, now) > max_run:
                            delivery.lost.set()  # not beaten any more: its lease runs out
                    held = [d for d in held if not d.lost.is_set()]
                if not held:
                    continue
                try:
                    beaten = self._q.leases.heartbeat(shard, [(d.key, d.token) for d in held], self._q.crew.timeout_ms)
                except Exception as error:  # noqa: BLE001 - the next beat tries again
                    self._failures.note(error)
                    continue
                for delivery, ok in zip(held, beaten, strict=True):
                    if not ok and not delivery.settled and delivery.token in self._held:
                        delivery.lost.set()


def _plain(verb: str, delivery: Delivery) -> Settlement:
    return Settlement(verb=verb, key=delivery.key, token=delivery.token)
