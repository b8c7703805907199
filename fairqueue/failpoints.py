"""Failpoints: a process that kills itself at a named step, so that crashes can be tested where they hurt.

``FAIRQUEUE_FAILPOINT=settle:after`` kills the process (SIGKILL) when it has had the reply of its first `settle`
script; ``step:before:3`` before it sends its third `step`. Steps are ``<script>:before``, ``<script>:after``,
``handler:before`` and ``handler:after``. Without the variable nothing is checked.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

VARIABLE = "FAIRQUEUE_FAILPOINT"


def armed(named: str | None) -> Callable[[str], None] | None:
    """What to call at each step; None when no failpoint is named."""
    if not named:
        return None
    script, place, *nth = named.split(":")
    left = [int(nth[0]) if nth else 1]

    def reached(step: str) -> None:
        if step == f"{script}:{place}":
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return reached


reached = armed(os.environ.get(VARIABLE))
