"""Clock: the server's time, unless a test says otherwise."""

from __future__ import annotations

from fairqueue.clock import Clock, SystemClock


def test_the_server_decides() -> None:
    """In production no client's clock is asked for a time that is stored."""
    assert SystemClock().now_ms() is None


def test_waits_are_monotonic() -> None:
    """Waits use a clock that never goes back."""
    clock = SystemClock()

    assert clock.monotonic() <= clock.monotonic()


def test_protocol() -> None:
    """SystemClock is a Clock."""
    assert isinstance(SystemClock(), Clock)
