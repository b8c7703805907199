"""Everything fairqueue raises, and the two signals a handler may raise."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

_SHOWN = 80  # characters of a value in an error's text
TEXT_BYTES = 4096  # of an error that are kept with a message


class FairQueueError(Exception):
    """Something went wrong in fairqueue.

    The text is the first line of the class's docstring unless a *message* is given; *data* become
    attributes and, without a message, end the text. Pickles and copies whole.
    """

    def __init__(self, message: str | None = None, /, **data: object) -> None:
        """Args: *message* instead of the default text; *data* to keep as attributes."""
        if message is None:
            message = _first_line(type(self))
            if data:
                message += " (" + ", ".join(f"{name}={shown(value)}" for name, value in data.items()) + ")"
        super().__init__(message)
        for name, value in data.items():
            setattr(self, name, value)


class InvalidArgument(FairQueueError, ValueError):
    """A value is outside its rule. Nothing was written."""


class InvalidId(InvalidArgument):
    """An id is not a str of 1 to 256 UTF-8 bytes. Nothing was written."""

    #: What the id names: tenant_id, queue_id, ...
    kind: str | None = None
    #: The refused value as text, escaped and shortened.
    value: str | None = None


class ConfigurationError(FairQueueError, ValueError):
    """An option is wrong, or two that contradict each other."""


class PayloadError(FairQueueError, ValueError):
    """The payload would not come back as it went in. Nothing was written."""

    #: Where in the payload, such as ``payload.items[3]``; never its content.
    path: str | None = None


class PayloadTooLarge(PayloadError):
    """The payload is larger than max_payload_bytes: store it elsewhere and send a reference. Nothing was written."""

    #: Bytes of the encoded payload.
    size: int = 0
    #: Bytes allowed.
    limit: int = 0


class QueueFull(FairQueueError):
    """The cap on waiting messages is reached. Nothing was written: try again when some are done."""

    tenant_id: str | None = None
    queue_id: str | None = None
    #: Messages allowed.
    limit: int | None = None


class LeaseLost(FairQueueError):
    """The delivery is no longer ours: its lease ran out, or it was settled already. Nothing changed; drop the work."""

    message_id: str | None = None
    tenant_id: str | None = None
    queue_id: str | None = None


class LeaseExpired(FairQueueError):
    """The lease ran out before the delivery was settled: its worker was lost. Counts as a failed attempt."""

    message_id: str | None = None
    tenant_id: str | None = None
    queue_id: str | None = None


class Unavailable(FairQueueError):
    """The server could not be reached, or refused. Nothing was accepted: try again later."""


class ServerFull(Unavailable):
    """The server's memory is full. Nothing was accepted: drain or purge, or raise maxmemory."""


class AccessDenied(Unavailable):
    """The server denies this user a right that fairqueue needs. Nothing was accepted."""

    #: The commands, keys or channels that are denied, as far as they are known.
    rights: tuple[str, ...] = ()


class OutcomeUnknown(FairQueueError):
    """The request was sent and its reply was lost: it may have been done. Repeating it with the same id is safe."""

    message_id: str | None = None
    #: Receipts of what is known to be in (bulk).
    receipts: tuple[Any, ...] = ()


class StoreError(FairQueueError):
    """What the server holds is not what it should be, or a script failed. The text names the key or the script."""

    #: First word of the server's reply, such as WRONGTYPE.
    code: str = ""
    #: The script that failed; None: a single command.
    script: str | None = None
    #: Keys that hold another type than they should (at most 10), or the key of the command.
    keys: tuple[str, ...] = ()


class UnsupportedServer(ConfigurationError):
    """The server cannot carry a queue: it is too old, or may evict keys. Nothing was written."""


class SchemaMismatch(FairQueueError):
    """The namespace was written with other settings or by another version."""


class Retry(Exception):  # a signal, not an error
    """Raised by a handler: this delivery failed, try again.

    Args:
        after: seconds or timedelta to wait; None: what the retry policy says.
    """

    def __init__(self, after: float | timedelta | None = None) -> None:
        """Checked when the delivery is settled."""
        super().__init__(after)
        self.after = after


class Bury(Exception):  # a signal, not an error
    """Raised by a handler: no more attempts, to the dead letters at once.

    Args:
        reason: kept with the dead letter.
    """

    def __init__(self, reason: str = "buried by the handler") -> None:
        """Checked when the delivery is settled."""
        super().__init__(reason)
        self.reason = reason


def _first_line(kind: type[FairQueueError]) -> str:
    doc = next((cls.__dict__["__doc__"] for cls in kind.__mro__ if cls.__dict__.get("__doc__")), kind.__name__)
    return str(doc).partition("\n")[0]


def shown(value: object) -> str:
    """A value for an error's text: escaped and short; of anything but a plain value only the type."""
    if not isinstance(value, str | bytes | bool | int | float | datetime | timedelta | None):
        return f"<{type(value).__name__}>"
    try:
        text = ascii(value[:_SHOWN] if isinstance(value, str | bytes) else value)
    except Exception:  # noqa: BLE001 - an int of more than 4,300 digits, a repr of a subclass
        return f"<{type(value).__name__}>"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def describe(error: object) -> tuple[str, str]:
    """Type and text of an error, even of one whose str() raises."""
    if error is None:
        return "", ""
    if isinstance(error, str):
        return "error", error.encode("utf-8", "replace")[:TEXT_BYTES].decode("utf-8", "ignore")
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001 - a user's __str__ may raise anything
        text = "(its text cannot be read)"
    return type(error).__name__, text.encode("utf-8", "replace")[:TEXT_BYTES].decode("utf-8", "ignore")
