"""Worker: a pool of threads around a handler, and what starts and stops it."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from fairqueue.durations import seconds, whole
from fairqueue.errors import ConfigurationError
from fairqueue.fetcher import Fetcher, confirm
from fairqueue.gate import Gate
from fairqueue.hands import Hands
from fairqueue.heartbeat import Heartbeat
from fairqueue.ids import check_id
from fairqueue.loops import Loop

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

    from fairqueue.delivery import Delivery
    from fairqueue.fair_queue import FairQueue


class Worker:
    """Runs *handler* on deliveries in *threads* threads.

    The handler returns: complete; raises (SystemExit and its like too): fail; raises `Retry` or `Bury`: as they say.
    Leases are beaten while it runs, up to the queue's ``max_run_time``: then the delivery's `lost` is set, the lease
    runs out, and another thread takes the place of the one that hangs (at most *threads* are left behind at a time;
    for each more the pool is one smaller, until one of them ends). `run()` blocks and drains on SIGTERM or SIGINT;
    a second one hurries. In a child process after a fork a worker is as if it had never been started.

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
        self._prefetch = whole("prefetch", prefetch, minimum=0, maximum=1000)
        self._grace = seconds("grace", grace, error=ConfigurationError)
        self._dispatch = dispatch
        self._signals = 0
        self._reset()

    def _reset(self) -> None:
        """As before the first start; nothing of an earlier run, or of a parent process, is kept."""
        self._pid = os.getpid()
        self._life = threading.Lock()  # one start or stop at a time
        self._signalled: SimpleQueue[None] = SimpleQueue()
        self._running = False
        self._hands = Hands(self._handler, self._threads, self._prefetch, self._q.events, self._paused)
        self._gate = Gate(self._q.options.rate_limiter, self._q.is_limited, self._q.leases)
        self._fetcher = Fetcher(self._q, self._hands, self._gate, self._names)
        heartbeat = Heartbeat(self._q, self._hands, self._fetcher)
        self._heartbeat = Loop(heartbeat.name, heartbeat.run_once, heartbeat.idle, self._q.events)

    def run(self) -> None:
        """Work until a signal or `stop()`; returns when drained.

        Raises:
            Unavailable, UnsupportedServer, SchemaMismatch: see `start`.
        """
        self._signals = 0
        previous = {}
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                previous[number] = signal.signal(number, self._on_signal)
        try:
            self.start()
            while not (self._signals or self._fetcher.draining):
                with suppress(Empty):
                    self._signalled.get(timeout=0.5)
        finally:
            try:
                self.stop()
            finally:
                for number, handler in previous.items():
                    if handler is not None:  # not set by Python: cannot be put back
                        signal.signal(number, handler)

    def start(self) -> None:
        """Start the threads and return. Twice is once.

        Raises:
            Unavailable, UnsupportedServer, SchemaMismatch: the server cannot be used; nothing was started.
        """
        if self._pid != os.getpid():
            self._reset()
        with self._life:
            if self._running:
                return
            for shard in self._q.shards:
                self._q.opened(shard)
            life = self._life
            self._reset()
            self._life = life
            if self._dispatch:
                self._q.start()
            self._q.wakeups().register(self._hands.wake)
            self._running = True
            self._hands.start()
            self._fetcher.tend()
            self._heartbeat.start()

    def stop(self, timeout: float | timedelta | None = None) -> None:
        """Take no more, wait for running handlers (*timeout*, else grace), give the rest back, end the threads.

        Called by a handler it only asks: the threads end when all handlers have.
        """
        if not self._running or self._pid != os.getpid():
            return
        grace = self._grace if timeout is None else seconds("timeout", timeout)
        self._fetcher.drain(time.monotonic() + grace)
        if self._hands.mine():
            return
        with self._life:
            if not self._running:
                return
            self._fetcher.join()
            self._heartbeat.stop()
            self._heartbeat.join()
            self._hands.close()
            self._q.wakeups().unregister(self._hands.wake)
            if self._dispatch:
                self._q.stop()
            self._running = False

    def health(self) -> dict[str, bool]:
        """Whether each thread is alive and does its work: a loop's last call worked, a handler is not overdue.

        The queue's own loops are included. It says whether there is trouble, not whether a restart would help.
        """
        if not self._running or self._pid != os.getpid():
            return self._q.health()
        own = {self._fetcher.name: self._fetcher.healthy, self._heartbeat.name: self._heartbeat.healthy}
        wakeups = self._q.wakeups()
        return {**self._hands.health, **own, wakeups.name: wakeups.healthy, **self._q.health()}

    def run_once(self) -> int:
        """Take what is ready now, up to one for each thread, handle it here, settle it; how many.

        Starts no thread, so nothing beats the leases meanwhile.
        """
        handled = 0
        for name in self._names:
            if handled >= self._threads or self._gate.wait:
                break
            taken = self._gate.admit(self._q.receive(name, max_messages=self._threads - handled))
            done = [self._hands.handle(delivery) for delivery in taken]
            handled += len(done)
            for shard in {item.delivery.shard for item in done}:
                items = [item for item in done if item.delivery.shard == shard and item.settlement is not None]
                settlements = [item.settlement for item in items if item.settlement is not None]
                if settlements:
                    confirm(self._q, items, self._q.leases.settle(shard, settlements))
        self._names.append(self._names.pop(0))
        return handled

    def _paused(self, delivery: Delivery) -> bool:
        return self._q.pauses.hold(delivery.shard, delivery.tenant_id, delivery.queue_id)

    def _on_signal(self, *_: object) -> None:
        """Runs between any two steps of the main thread: takes no lock."""
        self._signals += 1
        if self._signals > 1:
            self._fetcher.deadline = 0.0  # hurry
        self._signalled.put(None)
