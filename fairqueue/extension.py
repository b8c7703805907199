"""Extension: what a library that stands on fairqueue puts in place of its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairqueue.retry import RetryPolicy


@attrs.frozen(kw_only=True)
class Extension:
    """What is put in place; the defaults are fairqueue's own."""

    #: Owner of the namespace: another one refuses to open it.
    owner: str = "fairqueue"
    #: Pieces of Lua in place of named ones: ``("on_end", "batchqueue/batch")``.
    pieces: tuple[tuple[str, str], ...] = ()
    #: Options of those pieces.
    settings: dict[str, Any] = attrs.field(factory=dict)
    #: The retry policy of a message by its key (see `fairqueue.keys.message_key`). None: the options' for all.
    retry_of: Callable[[str], RetryPolicy | None] | None = None
    #: Whether a message, by its key, costs a token of the rate limiter. None: all do.
    is_limited: Callable[[str], bool] | None = None
