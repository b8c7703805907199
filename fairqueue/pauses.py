"""Pauses, as a worker asks for them: lately, not each time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairqueue.store.state import State

LATELY = 0.05  # seconds an answer is good for
REMEMBERED = 1000


class Pauses:
    """What a worker asks before it starts a delivery that it took earlier."""

    def __init__(self, state: State) -> None:
        """Know nothing."""
        self._state = state
        self._known: dict[tuple[str, str], tuple[float, bool]] = {}

    def hold(self, shard: int, tenant_id: str, queue_id: str) -> bool:
        """Whether tenant or queue was paused within the last 50 ms; no answer from the server holds nothing back."""
        known = self._known.get((tenant_id, queue_id))
        now = time.monotonic()
        if known is not None and now - known[0] < LATELY:
            return known[1]
        try:
            paused = self._state.paused(shard, tenant_id) or self._state.paused(shard, tenant_id, queue_id)
        except Exception:  # noqa: BLE001 - whatever the server's trouble, the lease is held and the handler may run
            paused = False
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known[tenant_id, queue_id] = (now, paused)
        return paused
