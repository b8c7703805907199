"""``q.messages``: one message."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from fairqueue.ids import check_id
from fairqueue.keys import message_key
from fairqueue.message import MessageInfo, read_info

if TYPE_CHECKING:
    from fairqueue.payload import Codec
    from fairqueue.resolver import Resolver
    from fairqueue.store.state import State


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

    def cancel(self, tenant_id: str, queue_id: str, message_id: str) -> bool:
        """End a message that nobody has taken yet; False when it does not live, is leased or dead."""
        check_id("queue_id", queue_id)
        check_id("message_id", message_id)
        return self._state.cancel(self._resolver.shard(tenant_id), tenant_id, queue_id, message_id)
