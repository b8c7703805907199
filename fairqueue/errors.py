"""Everything fairqueue raises, and the two signals a handler may raise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import timedelta


class FairQueueError(Exception):
    """Something went wrong in fairqueue."""

    def __init__(self, message: str | None = None, **data: object) -> None:
        """Keep *data* as attributes; the class's first line is the text where none is given."""
        self.message = message or (type(self).__doc__ or "").partition("\n")[0]
        self.data = data
        super().__init__(self.message)

    def __getattr__(self, name: str) -> Any:
        """Data given at birth, by name; None for what was not given."""
        if name.startswith("__") or name in {"data", "message"}:
            raise AttributeError(name)
        return self.data.get(name)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle with the data."""
        return _rebuild, (type(self), self.message, self.data)


def _rebuild(kind: type[FairQueueError], message: str, data: dict[str, object]) -> FairQueueError:
    return kind(message, **data)


class InvalidArgument(FairQueueError, ValueError):
    """A value is outside its rule. Nothing was written."""


class InvalidId(InvalidArgument):
    """An id is not a string of 1 to 256 UTF-8 bytes. Nothing was written."""


class ConfigurationError(FairQueueError, ValueError):
    """An option or the way things are put together is wrong."""


class PayloadError(FairQueueError, ValueError):
    """The payload would not come back as it went in. Nothing was written."""


class PayloadTooLarge(PayloadError):
    """The payload is larger than max_payload_bytes. Nothing was written."""


class QueueFull(FairQueueError):
    """The queue's cap is reached. Nothing was written."""


class LeaseLost(FairQueueError):
    """The delivery is no longer yours: its lease ran out and was reclaimed, or it was settled. Nothing changed."""


class LeaseExpired(FairQueueError):
    """The lease ran out before the delivery was settled; counts as a failed attempt."""


class Unavailable(FairQueueError):
    """The server could not be reached or refused. Nothing was accepted; try again later."""


class ServerFull(Unavailable):
    """The server's memory is full. Nothing was accepted; drain or purge, or raise maxmemory."""


class OutcomeUnknown(FairQueueError):
    """The request was sent and its reply was lost: it may have been done. Repeating it with the same id is safe."""


class SchemaMismatch(FairQueueError):
    """The namespace was written with other settings or by another version."""


class Retry(Exception):  # noqa: N818 - a signal a handler raises, not an error
    """Raised by a handler: try this message again after *after* (seconds; None: as the policy says)."""

    def __init__(self, after: float | timedelta | None = None) -> None:
        """Args: *after*, seconds or timedelta."""
        super().__init__(after)
        self.after = after


class Bury(Exception):  # noqa: N818 - a signal a handler raises, not an error
    """Raised by a handler: to the dead letters at once, for this *reason*."""

    def __init__(self, reason: str = "buried by the handler") -> None:
        """Args: *reason*, kept with the dead letter."""
        super().__init__(reason)
        self.reason = reason
