"""Gate: a rate limiter before the handlers. It spends a token for a message in hand, never for a look."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import structlog

from fairqueue.errors import FairQueueError
from fairqueue.hands import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fairqueue.delivery import Delivery
    from fairqueue.ratelimit import RateLimiter
    from fairqueue.store.inflight import Inflight

PAUSE = 1.0  # seconds, where a limiter does not say when to ask again, or fails


class Gate:
    """Lets deliveries through while the limiter allows; the others are handed back, uncharged, their slots free.

    After a refusal nothing is taken before the time that the limiter named.
    """

    def __init__(self, limiter: RateLimiter | None, is_limited: Callable[[str], bool], inflight: Inflight) -> None:
        """*limiter*: None lets everything through; *is_limited*: by the key, whether a message costs a token."""
        self._limiter = limiter
        self._is_limited = is_limited
        self._inflight = inflight
        self._opens_at = 0.0  # monotonic

    @property
    def wait(self) -> float:
        """Seconds until asking makes sense again; 0 while it is open."""
        return max(0.0, self._opens_at - time.monotonic())

    def admit(self, deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
        """Those that may be handled now; the rest is back in its place when this returns."""
        if self._limiter is None:
            return deliveries
        for i, delivery in enumerate(deliveries):
            if self._is_limited(delivery.key) and not self._acquire():
                rest = deliveries[i:]
                for other in rest:
                    other.lost.set()
                with suppress(FairQueueError):  # then their leases run out by themselves
                    for shard in {other.shard for other in rest}:
                        back = [plain("hand_back", other) for other in rest if other.shard == shard]
                        self._inflight.settle(shard, back)
                return deliveries[:i]
        return deliveries

    def _acquire(self) -> bool:
        assert self._limiter is not None  # noqa: S101 - admit() asked
        pause = PAUSE
        try:
            decision = self._limiter.acquire(1)
            if decision.allowed:
                return True
            if decision.reset_at is not None:
                pause = (decision.reset_at - datetime.now(UTC)).total_seconds()
        except Exception as error:  # noqa: BLE001 - a user's limiter may raise anything; then nothing is let through
            structlog.get_logger("fairqueue").warning("fairqueue.rate_limiter_failed", error=type(error).__name__)
        self._opens_at = time.monotonic() + min(max(pause, 0.001), 60.0)
        return False
