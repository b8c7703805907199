"""``q.messages``: one message."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import attrs

from fairqueue.errors import InvalidArgument
from fairqueue.ids import check_id
from fairqueue.keys import message_key
from fairqueue.message import MessageInfo, read_info
from fairqueue.views.page import Page, page_size

if TYPE_CHECKING:
    from fairqueue.payload import Codec
    from fairqueue.resolver import Resolver
    from fairqueue.store.state import State

_PLACE = re.compile(r"[0-9.e+]+:[0-9a-f]{12}.+")


@attrs.frozen
class Messages:
    """``q.messages``."""

    _resolver: Resolver
    _state: State
    _codec: Codec

    def get(self, tenant_id: str, queue_id: str, message_id: str) -> MessageInfo | None:
        """One message, wherever it stands; None when it does not live (any more)."""
        check_id("queue_id", queue_id)
        check_id("message_id", message_id)
        reply = self._state.whereabouts(self._resolver.shard(tenant_id), tenant_id, queue_id, message_id)
        if not reply:
            return None
        key = message_key(tenant_id, queue_id, message_id)
        return read_info(key, reply[0].decode(), reply[1], self._codec, paused=reply[4] == 1)

    def list(
        self, tenant_id: str, queue_id: str = "default", *, limit: int = 100, cursor: str | None = None
    ) -> Page[MessageInfo]:
        """Messages of a queue that wait, delayed ones included, in their order; go on with the page's ``cursor``."""
        check_id("queue_id", queue_id)
        order, _, member = (cursor or ":").partition(":")
        if cursor is not None and not _PLACE.fullmatch(cursor):
            raise InvalidArgument(f"cursor={cursor!r} is none that a page gave")
        shard = self._resolver.shard(tenant_id)
        rows, last = self._state.messages(shard, tenant_id, queue_id, (order, member), page_size(limit))
        paused = self._state.paused(shard, tenant_id) or self._state.paused(shard, tenant_id, queue_id)
        found = [read_info(key, state, record, self._codec, paused=paused) for state, key, record in rows]
        return Page(found, None if last is None else ":".join(last))

    def cancel(self, tenant_id: str, queue_id: str, message_id: str) -> bool:
        """End a message that nobody has taken yet; False when it does not live, is leased or dead."""
        check_id("queue_id", queue_id)
        check_id("message_id", message_id)
        return self._state.cancel(self._resolver.shard(tenant_id), tenant_id, queue_id, message_id)
