"""Numbers and times as users give them: checked, never clamped."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

from fairqueue.errors import ConfigurationError, InvalidArgument

MAX_DELAY = 365 * 86_400.0  # seconds


def seconds(
    name: str,
    value: object,
    *,
    minimum: float = 0,
    maximum: float = MAX_DELAY,
    error: type[InvalidArgument | ConfigurationError] = InvalidArgument,
) -> float:
    """A duration in seconds from a number or a timedelta.

    Raises:
        InvalidArgument: (or *error*) not a finite number from *minimum* to *maximum*; bool is not a number.
    """
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
        msg = f"{name}={value!r} is not a duration: a finite number of seconds or a timedelta is needed"
        raise error(msg)
    if not minimum <= number <= maximum:
        msg = f"{name}={value!r} is out of range: {minimum:g} to {maximum:g} seconds are allowed"
        raise error(msg)
    return float(number)


def whole(
    name: str,
    value: object,
    *,
    minimum: int,
    maximum: int,
    error: type[InvalidArgument | ConfigurationError] = ConfigurationError,
) -> int:
    """A whole number in a range.

    Raises:
        ConfigurationError: (or *error*) not an int from *minimum* to *maximum*; True is not 1.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
        msg = f"{name}={value!r} is not allowed: a whole number from {minimum} to {maximum} is needed"
        raise error(msg)
    return value


def limit(name: str, value: object, *, error: type[InvalidArgument | ConfigurationError] = ConfigurationError) -> int | None:
    """A concurrency limit: None is unlimited, 0 pauses, at most a million."""
    return None if value is None else whole(name, value, minimum=0, maximum=1_000_000, error=error)


def weight(name: str, value: object) -> float:
    """A tenant's weight: more than 0, at most 1,000,000.

    Raises:
        InvalidArgument: anything else.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or not 1e-6 <= value <= 1e6:
        msg = f"{name}={value!r} is not a weight: a number from 0.000001 to 1,000,000 is needed"
        raise InvalidArgument(msg)
    return float(value)


def due(delay: object, not_before: object) -> str:
    """When a message may start, in the form the enqueue script reads: '' now, '+ms' from now, 'ms' since the epoch.

    Raises:
        InvalidArgument: both are given, a delay out of range, a datetime that is naive.
    """
    if delay is not None and not_before is not None:
        msg = "delay and not_before say the same thing: give one of them"
        raise InvalidArgument(msg)
    if not_before is not None:
        if not isinstance(not_before, datetime) or not_before.utcoffset() is None:
            msg = f"not_before={not_before!r} has no time zone: give an aware datetime, such as datetime.now(timezone.utc)"
            raise InvalidArgument(msg)
        return str(max(0, math.ceil(not_before.timestamp() * 1000)))
    ms = math.ceil(seconds("delay", delay) * 1000) if delay is not None else 0
    return f"+{ms}" if ms else ""
