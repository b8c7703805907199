"""For your tests: a clock you move, a queue you drain, a server that fails on demand."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

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


class FlakyRedis(redis.Redis):
    """A client like *client*, on connections of its own, whose server is gone when you say so.

    Args:
        client: whose settings to take.
        drop_after: commands that still work; None: all, until `go_down` or `lose_replies`.
    """

    def __init__(self, client: redis.Redis, *, drop_after: int | None = None) -> None:
        """Open nothing."""
        self._left = drop_after
        self._lose = 0
        self._guard = threading.Lock()
        pool = client.connection_pool
        kind: Any = pool.connection_class
        flaky = self

        class Flaky(kind):  # type: ignore[misc]  # whatever kind the client has
            def send_packed_command(self, command: Any, check_health: bool = True) -> None:  # noqa: FBT001, FBT002 - redis-py's
                flaky._count()
                super().send_packed_command(command, check_health=check_health)

            def read_response(self, *args: Any, **kwargs: Any) -> Any:
                reply = super().read_response(*args, **kwargs)
                if flaky._swallow():
                    self.disconnect()
                    raise redis.ConnectionError("the reply was lost on purpose")
                return reply

        settings = {**pool.connection_kwargs, "retry": Retry(NoBackoff(), 0)}
        super().__init__(connection_pool=redis.ConnectionPool(connection_class=Flaky, **settings))

    def close(self) -> None:
        """Close its connections."""
        super().close()
        self.connection_pool.disconnect()

    def go_down(self) -> None:
        """Every command fails from now on, unsent."""
        with self._guard:
            self._left = 0

    def lose_replies(self, n: int) -> None:
        """The next *n* commands are done and their replies lost."""
        with self._guard:
            self._lose = n

    def heal(self) -> None:
        """Everything works again."""
        with self._guard:
            self._left, self._lose = None, 0

    def _count(self) -> None:
        with self._guard:
            if self._left == 0:
                raise redis.ConnectionError("the server is down on purpose")
            if self._left is not None:
                self._left -= 1

    def _swallow(self) -> bool:
        with self._guard:
            if self._lose == 0:
                return False
            self._lose -= 1
            return True


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
