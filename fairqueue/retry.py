"""Retry policies, and the decision what becomes of a delivery that failed."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import attrs

from fairqueue.durations import MAX_DELAY, seconds, whole
from fairqueue.errors import ConfigurationError, LeaseExpired

if TYPE_CHECKING:
    from collections.abc import Callable

EXHAUSTED = "exhausted"
NO_POLICY = "no retry policy"
DELIVERY_LIMIT = "delivery limit"
WORKER_LOST = "worker lost"
FALLBACK_DELAY = 1.0  # seconds, when a policy raised or answered nonsense


@runtime_checkable
class RetryPolicy(Protocol):
    """Says how long to wait before the next attempt."""

    def next_delay(self, attempt: int, error: BaseException | None = None, /) -> float | None:
        """Seconds to wait after failed attempt number *attempt* (from 1), or None: no more."""


def _seconds(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
    seconds(attribute.name, value, error=ConfigurationError)


def _attempts(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
    whole(attribute.name, value, minimum=1, maximum=100_000)


def _factor(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
    ok = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and 1 <= value <= 1000  # noqa: PLR2004
    if not ok:
        msg = f"{attribute.name}={value!r} is not allowed: a number from 1 to 1000 is needed"
        raise ConfigurationError(msg)


@attrs.frozen(kw_only=True)
class ExponentialBackoff:
    """``min_delay * factor ** (attempt - 1)`` seconds, times 1 to 2 by chance (jitter), at most max_delay."""

    max_attempts: int = attrs.field(default=12, validator=_attempts)
    min_delay: float = attrs.field(default=1, validator=_seconds)
    max_delay: float = attrs.field(default=3600, validator=_seconds)
    factor: float = attrs.field(default=2, validator=_factor)
    jitter: bool = attrs.field(default=True, validator=attrs.validators.instance_of(bool))

    def next_delay(self, attempt: int, error: BaseException | None = None, /) -> float | None:  # noqa: ARG002 - protocol
        """Seconds, or None from max_attempts on."""
        if attempt >= self.max_attempts:
            return None
        growth = (attempt - 1) * math.log(self.factor) if attempt > 1 else 0.0
        raw = self.max_delay if growth > 700 else self.min_delay * math.exp(growth)  # noqa: PLR2004 - exp overflows past 709
        if self.factor == int(self.factor) and growth < 30:  # noqa: PLR2004 - exact for whole factors
            raw = self.min_delay * self.factor ** (attempt - 1)
        if self.jitter:
            raw *= random.uniform(1, 2)  # noqa: S311 - spreads load, hides nothing
        return float(min(raw, self.max_delay))


@attrs.frozen
class FixedDelay:
    """The same delay (seconds) before each attempt."""

    max_attempts: int = attrs.field(validator=_attempts)
    delay: float = attrs.field(validator=_seconds)

    def next_delay(self, attempt: int, error: BaseException | None = None, /) -> float | None:  # noqa: ARG002 - protocol
        """Seconds, or None from max_attempts on."""
        return None if attempt >= self.max_attempts else float(self.delay)


@attrs.frozen
class LinearBackoff:
    """``delay * attempt`` seconds, at most max_delay."""

    max_attempts: int = attrs.field(validator=_attempts)
    delay: float = attrs.field(validator=_seconds)
    max_delay: float | None = attrs.field(default=None, validator=attrs.validators.optional(_seconds))

    def next_delay(self, attempt: int, error: BaseException | None = None, /) -> float | None:  # noqa: ARG002 - protocol
        """Seconds, or None from max_attempts on."""
        if attempt >= self.max_attempts:
            return None
        return float(min(self.delay * attempt, MAX_DELAY if self.max_delay is None else self.max_delay))


@attrs.frozen
class ImmediateRetry:
    """Again at once."""

    max_attempts: int = attrs.field(validator=_attempts)

    def next_delay(self, attempt: int, error: BaseException | None = None, /) -> float | None:  # noqa: ARG002 - protocol
        """0, or None from max_attempts on."""
        return None if attempt >= self.max_attempts else 0.0


@attrs.frozen
class NoRetry:
    """One attempt."""

    max_attempts: int = attrs.field(default=1, init=False)

    def next_delay(self, attempt: int, error: BaseException | None = None, /) -> float | None:  # noqa: ARG002 - protocol
        """None."""
        return None


@attrs.frozen
class CustomRetry:
    """A function decides: ``delay(attempt, error)`` gives seconds, or None to end."""

    max_attempts: int = attrs.field(validator=_attempts)
    delay: Callable[[int, BaseException | None], float | None] = attrs.field(validator=attrs.validators.is_callable())

    def next_delay(self, attempt: int, error: BaseException | None = None, /) -> float | None:
        """What the function says, or None from max_attempts on."""
        return None if attempt >= self.max_attempts else self.delay(attempt, error)


@attrs.frozen
class Again:
    """Try again after *delay* seconds; *trouble*: what the policy did wrong, if it did."""

    delay: float
    trouble: str | None = None


@attrs.frozen
class Dead:
    """No more attempts, for this *reason*."""

    reason: str


def decide(
    policy: RetryPolicy | None, *, attempt: int, deliveries: int, max_deliveries: int | None, error: BaseException | None
) -> Again | Dead:
    """What becomes of a delivery that failed. A policy that raises or answers nonsense costs the attempt, not the message."""
    if policy is None:
        return Dead(NO_POLICY)
    if max_deliveries is not None and deliveries >= max_deliveries:
        return Dead(DELIVERY_LIMIT)
    try:
        answer = policy.next_delay(attempt, error)
        return Dead(EXHAUSTED) if answer is None else Again(seconds("next_delay", answer))
    except Exception as trouble:  # noqa: BLE001 - a user's policy may raise anything
        return Again(FALLBACK_DELAY, f"{type(trouble).__name__}: {trouble}"[:500])


def on_expiry(
    policy: RetryPolicy | None, *, attempt: int, deliveries: int, max_deliveries: int | None
) -> Again | Dead:
    """What becomes of a message whose lease ran out: back to its place, unless that was the last try."""
    if max_deliveries is not None and deliveries >= max_deliveries:
        return Dead(f"{WORKER_LOST}: {DELIVERY_LIMIT} of {max_deliveries} reached")
    if policy is None:
        return Again(0)
    verdict = decide(policy, attempt=attempt, deliveries=deliveries, max_deliveries=max_deliveries, error=LeaseExpired())
    return Dead(f"{WORKER_LOST}: {EXHAUSTED}") if isinstance(verdict, Dead) else Again(0, verdict.trouble)
