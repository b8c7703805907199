"""The tenant that code works for: set around a request or a message, read where something is enqueued."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from fairqueue.errors import InvalidArgument
from fairqueue.ids import check_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_tenant: ContextVar[str | None] = ContextVar("fairqueue_tenant", default=None)


@contextmanager
def tenant_context(tenant_id: str | None) -> Iterator[None]:
    """Work for *tenant_id* in this block, in this thread or async task only; None: for nobody.

    Raises:
        InvalidId: not an id.
    """
    token = _tenant.set(None if tenant_id is None else check_id("tenant_id", tenant_id))
    try:
        yield
    finally:
        _tenant.reset(token)


def current_tenant() -> str | None:
    """The tenant of the innermost `tenant_context`, or None."""
    return _tenant.get()


def tenant_or_current(tenant_id: str | None, current: Callable[[], str | None] = current_tenant) -> str:
    """What is given, else what *current* says.

    Raises:
        InvalidArgument: neither is there.
    """
    found = current() if tenant_id is None else tenant_id
    if found is None:
        raise InvalidArgument("whose message is it? Give tenant_id, or enqueue inside tenant_context(...)")
    return found
