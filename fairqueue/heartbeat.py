"""Heartbeat: keeps what a worker has in hand: renews leases, and looks after its threads."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from fairqueue.durations import seconds

if TYPE_CHECKING:
    from fairqueue.delivery import Delivery
    from fairqueue.fair_queue import FairQueue
    from fairqueue.fetcher import Fetcher
    from fairqueue.hands import Hands

TEND = 0.25  # seconds between two looks at the threads


class Heartbeat:
    """The role of one worker."""

    name = "fairqueue.heartbeat"

    def __init__(self, q: FairQueue, hands: Hands, fetcher: Fetcher) -> None:
        """Collaborators are handed in."""
        limit = q.options.max_run_time
        self._q = q
        self._hands = hands
        self._fetcher = fetcher
        self._every = q.options.beat_every
        self._max_run = None if limit is None else seconds("max_run_time", limit)
        self._beat_at = time.monotonic() + self._every

    def run_once(self) -> int:
        """Look after the threads; renew the leases when it is time. After a failure the next call renews again."""
        self._fetcher.tend()
        self._hands.tend(self._max_run)
        if time.monotonic() >= self._beat_at:
            self._beat()
            self._beat_at = time.monotonic() + self._every
        return 0

    def idle(self) -> float:
        """Seconds until the next look."""
        tick = TEND if self._max_run is None else min(TEND, self._max_run / 4)
        return max(0.005, min(tick, self._beat_at - time.monotonic()))

    def _beat(self) -> None:
        held = [d for d in list(self._hands.held.values()) if not d.settled and not d.lost.is_set()]
        trouble: Exception | None = None
        for shard in {delivery.shard for delivery in held}:
            try:
                self._renew(shard, [delivery for delivery in held if delivery.shard == shard])
            except Exception as error:  # noqa: BLE001 - the other shards' leases are renewed first
                trouble = error
        if trouble is not None:
            raise trouble

    def _renew(self, shard: int, held: list[Delivery]) -> None:
        beaten = self._q.leases.heartbeat(shard, [(d.key, d.token) for d in held], self._q.crew.timeout_ms)
        for delivery, ok in zip(held, beaten, strict=True):
            if not ok and not delivery.settled and delivery.token in self._hands.held:
                delivery.lost.set()
