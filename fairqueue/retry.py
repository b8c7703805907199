"""Retry policies, and the decision what becomes of a delivery that failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import attrs

from fairqueue.durations import (
    MAX_DELAY,
    as_seconds,
    as_seconds_or_none,
    or_none,
    ratio,
    seconds,
    whole,
    within,
    yes_or_no,
)
from fairqueue.errors import ConfigurationError, LeaseExpired
from fairqueue.jitter import JITTER

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

EXHAUSTED = "exhausted"
NOT_RETRYABLE = "not retryable"
NO_POLICY = "no retry policy"
DELIVERY_LIMIT = "delivery limit"
WORKER_LOST = "worker lost"
#: Seconds to wait when a policy raised or answered nonsense.
FALLBACK_DELAY = 1.0
#: Attempts and deliveries are stored in 16 bits.
MAX_ATTEMPTS = 60_000

_attempts = within(whole, 1, MAX_ATTEMPTS)
_delay = within(seconds, 0, MAX_DELAY)


@runtime_checkable
class RetryPolicy(Protocol):
    """Says how long to wait before the next attempt."""

    def next_delay(self, attempt: int, error: BaseException | None = None, /) -> float | None:
        """Seconds to wait after the failed attempt number *attempt* (from 1), or None: no more."""


@attrs.frozen(kw_only=True)
class ExponentialBackoff:
    """``min_delay * factor ** (attempt - 1)`` seconds, with *jitter* times 1 to 2 by chance, at most *max_delay*.

    Raises:
        ConfigurationError: a value is out of range, or *min_delay* is more than *max_delay*.
    """

    max_attempts: int = attrs.field(default=12, validator=_attempts)
    min_delay: float = attrs.field(default=1, converter=as_seconds, validator=_delay)
    max_delay: float = attrs.field(default=3600, converter=as_seconds, validator=_delay)
    factor: float = attrs.field(default=2, validator=within(ratio, 1, 1000))
    jitter: bool = attrs.field(default=True, validator=yes_or_no)

    def __attrs_post_init__(self) -> None:
        """Check what takes two values to go wrong."""
        if self.min_delay > self.max_delay:
            raise ConfigurationError(f"min_delay={self.min_delay} must not be more than max_delay={self.max_delay}")

    def next_delay(self, attempt: int, error: BaseException | None = None) -> float | None:  # noqa: ARG002 - protocol
        """Seconds, or None from max_attempts on."""
        if attempt >= self.max_attempts:
            return None
        try:
            delay = self.min_delay * float(self.factor) ** max(attempt - 1, 0)
        except OverflowError:
            delay = self.max_delay if self.min_delay else 0.0
        if self.jitter:
            delay *= JITTER.uniform(1, 2)
        return float(min(delay, self.max_delay))


@attrs.frozen
class LinearBackoff:
    """``delay * attempt`` seconds, at most *max_delay* (None: ``delay * max_attempts``)."""

    max_attempts: int = attrs.field(validator=_attempts)
    delay: float = attrs.field(converter=as_seconds, validator=_delay)
    max_delay: float | None = attrs.field(default=None, converter=as_seconds_or_none, validator=or_none(_delay))

    def next_delay(self, attempt: int, error: BaseException | None = None) -> float | None:  # noqa: ARG002 - protocol
        """Seconds, or None from max_attempts on."""
        if attempt >= self.max_attempts:
            return None
        return float(min(self.delay * max(attempt, 0), MAX_DELAY if self.max_delay is None else self.max_delay))


@attrs.frozen
class FixedDelay:
    """The same *delay* (seconds) before each attempt."""

    max_attempts: int = attrs.field(validator=_attempts)
    delay: float = attrs.field(converter=as_seconds, validator=_delay)

    def next_delay(self, attempt: int, error: BaseException | None = None) -> float | None:  # noqa: ARG002 - protocol
        """Seconds, or None from max_attempts on."""
        return None if attempt >= self.max_attempts else float(self.delay)


@attrs.frozen
class ImmediateRetry:
    """Again at once."""

    max_attempts: int = attrs.field(validator=_attempts)

    def next_delay(self, attempt: int, error: BaseException | None = None) -> float | None:  # noqa: ARG002 - protocol
        """0, or None from max_attempts on."""
        return None if attempt >= self.max_attempts else 0.0


@attrs.frozen
class NoRetry:
    """One attempt."""

    max_attempts: int = attrs.field(default=1, init=False)

    def next_delay(self, attempt: int, error: BaseException | None = None) -> float | None:  # noqa: ARG002 - protocol
        """None."""
        return None


@attrs.frozen
class CustomRetry:
    """A function decides: ``delay(attempt, error)`` gives seconds or a timedelta, or None to end early."""

    max_attempts: int = attrs.field(validator=_attempts)
    delay: Callable[[int, BaseException | None], float | timedelta | None] = attrs.field()

    @delay.validator
    def _callable(self, _: object, value: object) -> None:
        if not callable(value):
            raise ConfigurationError("delay must be callable: delay(attempt, error) -> seconds or None")

    def next_delay(self, attempt: int, error: BaseException | None = None) -> float | None:
        """What the function says, or None from max_attempts on."""
        return None if attempt >= self.max_attempts else as_seconds_or_none(self.delay(attempt, error))


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
    policy: RetryPolicy | None,
    *,
    attempt: int,
    deliveries: int,
    max_deliveries: int | None,
    error: BaseException | None,
) -> Again | Dead:
    """Say what becomes of a delivery that failed.

    A policy that raises or answers nonsense costs an attempt and FALLBACK_DELAY, never the settlement.

    Args:
        policy: None means one attempt.
        attempt: the one that failed, from 1.
        deliveries: leases so far, this one included.
        max_deliveries: as many leases end it; None: no such limit.
        error: what the handler raised.
    """
    if policy is None:
        return Dead(NO_POLICY)
    if max_deliveries is not None and deliveries >= max_deliveries:
        return Dead(f"{DELIVERY_LIMIT} of {max_deliveries} reached")
    if attempt >= MAX_ATTEMPTS:
        return Dead(EXHAUSTED)
    try:
        answer = policy.next_delay(attempt, error)
        if answer is not None:
            return Again(seconds("next_delay", answer))
        early = attempt < getattr(policy, "max_attempts", attempt)
    except BaseException as trouble:  # noqa: BLE001 - a user's policy may raise anything
        return Again(FALLBACK_DELAY, _text(trouble))
    return Dead(NOT_RETRYABLE if early else EXHAUSTED)


def on_expiry(policy: RetryPolicy | None, *, attempt: int, deliveries: int, max_deliveries: int | None) -> Again | Dead:
    """Say what becomes of a message whose lease ran out: back to its place at once, unless that was the last try.

    Args:
        policy: asked with a LeaseExpired whether it goes on; None: only *max_deliveries* ends it.
        attempt: the one that was lost, from 1.
        deliveries: leases so far, this one included.
        max_deliveries: as many leases end it; None: no such limit.
    """
    if policy is None and (max_deliveries is None or deliveries < max_deliveries):
        return Again(0.0)
    verdict = decide(
        policy or NoRetry(),
        attempt=attempt,
        deliveries=deliveries,
        max_deliveries=max_deliveries,
        error=LeaseExpired(),
    )
    return Dead(f"{WORKER_LOST}: {verdict.reason}") if isinstance(verdict, Dead) else Again(0.0, verdict.trouble)


def _text(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"[:500]
    except BaseException:  # noqa: BLE001 - its text raises too
        return type(error).__name__
