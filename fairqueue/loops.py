"""Loops: a role steps, a loop runs it in a thread of its own."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import structlog

from fairqueue.events import LoopFailed
from fairqueue.jitter import JITTER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fairqueue.events import Events

MAX_PAUSE = 1.0  # seconds between tries while something keeps failing
LOG_EVERY = 1.0  # seconds between the first two lines about failures; doubled from line to line
LOG_SELDOM = 30.0  # but never more


class Failures:
    """Backs off with jitter while calls fail, and says so at most once a second, less and less while it lasts."""

    def __init__(self, name: str, told: Events) -> None:
        """*name* is the loop's."""
        self._name = name
        self._events = told
        self._lock = threading.Lock()
        self._pause = 0.0
        self._logged = -LOG_SELDOM
        self._quiet = self._next_quiet = LOG_EVERY

    @property
    def failing(self) -> bool:
        """Whether the last call failed."""
        return self._pause > 0

    def ok(self) -> None:
        """The call worked."""
        if self._pause:
            self._pause = 0.0
            self._quiet = self._next_quiet = LOG_EVERY

    def note(self, error: BaseException) -> float:
        """The call failed; seconds to wait before the next. Raises nothing."""
        with self._lock:
            self._pause = pause = min(MAX_PAUSE, self._pause * 2 or 0.05)
            now = time.monotonic()
            due = now - self._logged >= self._quiet
            if due:
                self._logged = now
                self._quiet = self._next_quiet
                self._next_quiet = min(self._quiet * 2, LOG_SELDOM)
        if due:
            with suppress(Exception):  # neither an error without a text nor a logger that fails ends a loop
                text = f"{type(error).__name__}: {error}"[:300]
                structlog.get_logger("fairqueue").warning("fairqueue.loop_failed", loop=self._name, error=text)
                if self._events:
                    self._events.emit(LoopFailed(loop=self._name, error=text))
        return pause * JITTER.uniform(0.5, 1)


def each(shards: Iterable[int], step: Callable[[int], int]) -> int:
    """Step every shard, one in trouble too; then raise the first trouble. What the steps returned, summed up."""
    total = 0
    trouble: Exception | None = None
    for shard in shards:
        try:
            total += step(shard)
        except Exception as error:  # noqa: BLE001 - the others have their turn first
            trouble = trouble or error
    if trouble is not None:
        raise trouble
    return total


class Loop:
    """Runs *step* until stopped: at once again while it moves something, else after *idle()* seconds."""

    def __init__(self, name: str, step: Callable[[], int], idle: Callable[[], float], told: Events) -> None:
        """Start nothing."""
        self.name = name
        self._step = step
        self._idle = idle
        self._stop = threading.Event()
        self._failures = Failures(name, told)
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end; `join` waits."""
        self._stop.set()

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end."""
        if self._thread is not None:
            self._thread.join(timeout)

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def healthy(self) -> bool:
        """Whether its thread runs and its last step worked."""
        return self.alive and not self._failures.failing

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._rounds()
            except BaseException as error:  # noqa: BLE001 - whatever it is, the loop lives
                self._stop.wait(self._failures.note(error))

    def _rounds(self) -> None:
        while not self._stop.is_set():
            moved = self._step()
            self._failures.ok()
            wait = 0.0 if moved else self._idle()
            if wait > 0:
                self._stop.wait(wait)
