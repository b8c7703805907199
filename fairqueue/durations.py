"""Numbers and times as users give them: checked, never clamped. bool is not a number; NaN and infinity are none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from fairqueue.errors import ConfigurationError, InvalidArgument, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    import attrs

    Validator = Callable[[object, attrs.Attribute[Any], object], None]
    Wrong = type[InvalidArgument | ConfigurationError]

MAX_DELAY = 365 * 86_400  # seconds
MAX_LIMIT = 1_000_000  # slots of a concurrency group
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


def as_seconds(value: float | timedelta) -> float:
    """A timedelta as seconds; everything else as it is, for a check to come."""
    return value.total_seconds() if isinstance(value, timedelta) else value


def as_seconds_or_none(value: float | timedelta | None) -> float | None:
    """The same where None is allowed."""
    return None if value is None else as_seconds(value)


def seconds(
    name: str, value: object, *, minimum: float = 0, maximum: float = MAX_DELAY, error: Wrong = InvalidArgument
) -> float:
    """A duration in seconds from a number or a timedelta.

    Raises:
        InvalidArgument: (or *error*) not a finite number from *minimum* to *maximum*.
    """
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if not isinstance(number, int | float) or isinstance(number, bool):
        raise error(f"{name}={shown(value)} is not a duration: a number of seconds or a timedelta is needed")
    if not minimum <= number <= maximum:
        raise error(f"{name}={shown(value)} is out of range: {minimum:,} to {maximum:,} seconds are allowed")
    return float(number)


def whole(name: str, value: object, *, minimum: int, maximum: int, error: Wrong = ConfigurationError) -> int:
    """A whole number in a range.

    Raises:
        ConfigurationError: (or *error*) not an int from *minimum* to *maximum*.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
        raise error(f"{name}={shown(value)} is not allowed: a whole number from {minimum:,} to {maximum:,} is needed")
    return int(value)


def ratio(name: str, value: object, *, minimum: float, maximum: float, error: Wrong = ConfigurationError) -> float:
    """A number without a unit, in a range.

    Raises:
        ConfigurationError: (or *error*) not a finite int or float from *minimum* to *maximum*.
    """
    if not isinstance(value, int | float) or isinstance(value, bool) or not minimum <= value <= maximum:
        raise error(f"{name}={shown(value)} is not allowed: a number from {minimum:,} to {maximum:,} is needed")
    return float(value)


def limit(name: str, value: object, *, error: Wrong = ConfigurationError) -> int | None:
    """A concurrency limit: None is unlimited, 0 pauses, at most a million.

    Raises:
        ConfigurationError: (or *error*) anything else.
    """
    if value is None:
        return None
    try:
        return whole(name, value, minimum=0, maximum=MAX_LIMIT, error=error)
    except error as wrong:
        raise error(f"{wrong}, or None for no limit") from None


def weight(name: str, value: object) -> float:
    """A tenant's weight: 0.000001 to 1,000,000.

    Raises:
        InvalidArgument: anything else.
    """
    return ratio(name, value, minimum=1e-6, maximum=1_000_000, error=InvalidArgument)


def to_ms(number: float) -> int:
    """Whole milliseconds, rounded up: nothing starts early. Exact to the microsecond."""
    return -(-round(number * 1e6) // 1000)


def at_ms(name: str, value: object) -> int:
    """Milliseconds since the epoch of an aware datetime, rounded up; 0 for what lies before.

    Raises:
        InvalidArgument: not a datetime, or one without a time zone.
    """
    if not isinstance(value, datetime):
        raise InvalidArgument(f"{name}={shown(value)} is not a time: an aware datetime is needed")
    if value.utcoffset() is None:
        raise InvalidArgument(
            f"{name}={shown(value)} has no time zone, so it could mean any: give an aware datetime, "
            "such as datetime.now(timezone.utc) or value.astimezone()"
        )
    return max(0, -((_EPOCH - value) // _MS))


def due(delay: object, not_before: object) -> str:
    """When a message may start, in the form the enqueue script reads: '' now, '+ms' from now, 'ms' since the epoch.

    Args:
        delay: 0 to 365 days in seconds or as a timedelta, or None.
        not_before: an aware datetime, or None; the past means now.

    Raises:
        InvalidArgument: both are given, or one breaks its rule.
    """
    if not_before is None:
        ms = 0 if delay is None else to_ms(seconds("delay", delay))
        return f"+{ms}" if ms else ""
    if delay is not None:
        raise InvalidArgument("delay and not_before say the same thing: give one of them")
    return str(at_ms("not_before", not_before))


def within(check: Callable[..., object], minimum: float, maximum: float) -> Validator:
    """An attrs validator: ``within(whole, 1, 1024)`` raises ConfigurationError for anything else."""

    def validate(_: object, field: attrs.Attribute[Any], value: object) -> None:
        check(field.name, value, minimum=minimum, maximum=maximum, error=ConfigurationError)

    return validate


def or_none(check: Validator) -> Validator:
    """An attrs validator: None is allowed, everything else is for *check*."""

    def validate(instance: object, field: attrs.Attribute[Any], value: object) -> None:
        if value is not None:
            check(instance, field, value)

    return validate


def yes_or_no(_: object, field: attrs.Attribute[Any], value: object) -> None:
    """An attrs validator: ConfigurationError unless it is True or False."""
    if not isinstance(value, bool):
        raise ConfigurationError(f"{field.name}={shown(value)} is not allowed: True or False is needed")
