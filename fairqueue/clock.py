"""Time. The server's clock decides everything that is stored; tests put their own in its place."""

from __future__ import annotations

import time
from typing import Protocol, runtime_checkable


@runtime_checkable
class Clock(Protocol):
    """What a FairQueue asks for the time."""

    def now_ms(self) -> int | None:
        """Milliseconds since the epoch for a script to use, or None: the server's own clock."""

    def monotonic(self) -> float:
        """Seconds, for waits in this process; never stored, never compared with stored times."""


class SystemClock:
    """The clock of production."""

    def now_ms(self) -> int | None:
        """None: scripts read the server's time."""
        return None

    def monotonic(self) -> float:
        """Seconds of the operating system's monotonic clock."""
        return time.monotonic()
