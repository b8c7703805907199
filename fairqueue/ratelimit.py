"""Rate limits: what a limiter answers, and the protocol of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import attrs

from fairqueue.durations import at_ms, yes_or_no

if TYPE_CHECKING:
    from datetime import datetime


def _aware(_: object, field: attrs.Attribute[datetime | None], value: object) -> None:
    if value is not None:
        at_ms(field.name, value)


@attrs.frozen
class Decision:
    """A limiter's answer: *allowed*, and when not, the aware time at which asking again makes sense.

    Raises:
        InvalidArgument: *reset_at* has no time zone.
    """

    allowed: bool = attrs.field(validator=yes_or_no)
    reset_at: datetime | None = attrs.field(default=None, validator=_aware)


@runtime_checkable
class RateLimiter(Protocol):
    """Spends tokens. A worker asks for each message in hand, never for a look."""

    def acquire(self, n: int = 1, /) -> Decision:
        """Take *n* tokens, all or none, without waiting."""
