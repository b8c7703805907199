"""What happens, as values, and who is told. Without hooks nothing is built and nothing is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import attrs
import structlog

if TYPE_CHECKING:
    from collections.abc import Iterable


@attrs.frozen(kw_only=True)
class Event:
    """Something happened. Ids only, never a payload."""


@attrs.frozen(kw_only=True)
class Enqueued(Event):
    """Messages were accepted."""

    tenant_id: str
    queue_id: str
    count: int


@attrs.frozen(kw_only=True)
class Started(Event):
    """A handler was given a delivery; *wait* is seconds from due to start by the server's clock."""

    tenant_id: str
    queue_id: str
    message_id: str
    attempt: int


@attrs.frozen(kw_only=True)
class Settled(Event):
    """A delivery ended: *outcome* is complete, retry, bury, release or hand_back."""

    tenant_id: str
    queue_id: str
    message_id: str
    outcome: str
    attempt: int
    reason: str = ""


@attrs.frozen(kw_only=True)
class Lost(Event):
    """A delivery was no longer ours when it was settled or beaten."""

    tenant_id: str
    queue_id: str
    message_id: str


@attrs.frozen(kw_only=True)
class Reclaimed(Event):
    """A lease ran out; *dead* when that was the last try."""

    tenant_id: str
    queue_id: str
    message_id: str
    attempt: int
    dead: bool


@attrs.frozen(kw_only=True)
class LimitFailed(Event):
    """The `limit` callable of a concurrency group raised or gave no limit; its last good answer counts on."""

    group: str
    group_id: str | tuple[str, ...]
    error: str


@attrs.frozen(kw_only=True)
class LoopFailed(Event):
    """A loop raised; it goes on after a pause."""

    loop: str
    error: str


class Hook(Protocol):
    """Is told of every event, in the thread where it happened."""

    def __call__(self, event: Event, /) -> None:
        """Take note; must be quick."""


@attrs.frozen
class Events:
    """The hooks of one FairQueue. One that raises is logged and harms nothing."""

    hooks: tuple[Hook, ...] = ()

    def __bool__(self) -> bool:
        """Whether anybody listens: nothing is built where nobody does."""
        return bool(self.hooks)

    def emit(self, event: Event) -> None:
        """Tell every hook."""
        _tell(self.hooks, event)


def _tell(hooks: Iterable[Hook], event: Event) -> None:
    for hook in hooks:
        try:
            hook(event)
        except Exception as error:  # noqa: BLE001 - a hook never fails a message
            structlog.get_logger("fairqueue").warning(
                "fairqueue.hook_failed", hook=repr(hook)[:80], error=type(error).__name__
            )
