"""For your tests: a clock you move, a queue you drain, and fixtures on a real server."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from fairqueue.errors import InvalidArgument
from fairqueue.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairqueue.delivery import Delivery
    from fairqueue.events import Event
    from fairqueue.fair_queue import FairQueue


class ManualClock:
    """Time that stands still until it is advanced. Give it to a FairQueue as *clock*: scripts use it too."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        """Start at *now_ms*, milliseconds since the epoch."""
        self._now = now_ms
        self._lock = threading.Lock()

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        with self._lock:
            return self._now

    def monotonic(self) -> float:
        """Seconds."""
        return self.now_ms() / 1000

    def advance(self, seconds: float = 0, *, ms: int = 0) -> None:
        """Move on, never back.

        Raises:
            InvalidArgument: a negative step.
        """
        step = round(seconds * 1000) + ms
        if step < 0:
            raise InvalidArgument(f"a clock does not go back: {step} ms")
        with self._lock:
            self._now += step


class Collected:
    """A hook that keeps every event."""

    def __init__(self) -> None:
        """Start empty."""
        self.events: list[Event] = []

    def __call__(self, event: Event, /) -> None:
        """Keep it."""
        self.events.append(event)

    def of(self, kind: type[Event]) -> list[Event]:
        """Those of one kind."""
        return [event for event in self.events if isinstance(event, kind)]


def drain(q: FairQueue, handler: Callable[[Delivery], object], *, worker_queue: str = "default") -> list[Delivery]:
    """Handle everything that is due, one after the other in this thread; the deliveries, in order."""
    handled: list[Delivery] = []

    def keep(delivery: Delivery) -> None:
        handled.append(delivery)
        handler(delivery)

    worker = Worker(q, keep, worker_queue=worker_queue, threads=1, dispatch=False)
    while worker.run_once():
        pass
    return handled
