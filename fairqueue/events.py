"""What happens, as values, and who is told. Without hooks nothing is built and nothing is called."""

from __future__ import annotations

from contextlib import suppress
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Protocol

import attrs
import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


@attrs.frozen(kw_only=True)
class Event:
    """Something happened. Ids only, never a payload (but see `Discarded`)."""


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
class Discarded(Event):
    """A message ended without success and is kept nowhere.

    *why*: "off" (`dead_letters` is False), "limit" (the oldest letter, pushed out by `dead_letter_limit`) or "age"
    (`dead_letter_ttl`); *reason*: why it was given up; *error*: its last one. *raw* is the payload as stored,
    for hooks that ask (see `Hook`), else None.
    """

    tenant_id: str
    queue_id: str
    message_id: str
    why: str
    reason: str
    error: str = attrs.field(repr=False)
    raw: bytes | None = attrs.field(default=None, repr=False)


@attrs.frozen(kw_only=True)
class LimitFailed(Event):
    """The `limit` callable of a concurrency group raised or gave no limit; its last good answer counts on."""

    group: str
    group_id: str | tuple[str, ...]
    error: str


@attrs.frozen(kw_only=True)
class Overdue(Event):
    """A handler runs longer than max_run_time: its lease is not renewed, its thread is left behind."""

    tenant_id: str
    queue_id: str
    message_id: str
    attempt: int


@attrs.frozen(kw_only=True)
class LoopFailed(Event):
    """A loop raised; it goes on after a pause."""

    loop: str
    error: str


class Hook(Protocol):
    """Is told of every event, in the thread where it happened.

    One with an attribute ``payloads = True`` gets the payloads of discarded messages; the others never do.
    """

    def __call__(self, event: Event, /) -> None:
        """Take note; must be quick."""


@attrs.frozen
class OnDiscard:
    """A hook that is told of discarded messages only, with their payloads."""

    handle: Callable[[Discarded], None]
    payloads: bool = True

    def __call__(self, event: Event, /) -> None:
        """Hand it on."""
        if isinstance(event, Discarded):
            self.handle(event)


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

    @property
    def payloads(self) -> bool:
        """Whether a hook asks for the payloads of discarded messages."""
        return any(_asks(hook) for hook in self.hooks)


def _asks(hook: Hook) -> bool:
    return getattr(hook, "payloads", False) is True


def _tell(hooks: Iterable[Hook], event: Event) -> None:
    for hook in hooks:
        try:
            if isinstance(event, Discarded) and event.raw is not None and not _asks(hook):
                hook(attrs.evolve(event, raw=None))
            else:
                hook(event)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and current_thread() is main_thread():
                raise  # from the keyboard, not from the hook
            with suppress(Exception):  # nor does a logger that fails
                structlog.get_logger("fairqueue").warning(
                    "fairqueue.hook_failed", hook=_name(hook), error=type(error).__name__
                )


def _name(hook: Hook) -> str:
    return str(getattr(hook, "__qualname__", type(hook).__qualname__))[:80]
