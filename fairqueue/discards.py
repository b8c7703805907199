"""Discards: messages that ended without success and are kept nowhere, told to the hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from fairqueue.events import Discarded, Events
from fairqueue.keys import split_message_key
from fairqueue.message import read_payload

if TYPE_CHECKING:
    from collections.abc import Sequence

FIELDS = 6  # of a discarded message in a reply


@attrs.frozen
class Discards:
    """Reads what scripts append to their replies when hooks listen."""

    events: Events

    def tell(self, rows: Sequence[Any]) -> None:
        """Key, why, reason, kind, text and record (b'' unless a hook asks for payloads) of each."""
        for i in range(0, len(rows), FIELDS):
            key, why, reason, kind, text = (part.decode("utf-8", "replace") for part in rows[i : i + FIELDS - 1])
            raw = rows[i + FIELDS - 1]
            tenant_id, queue_id, message_id = split_message_key(key)
            self.events.emit(
                Discarded(
                    tenant_id=tenant_id,
                    queue_id=queue_id,
                    message_id=message_id,
                    why=why,
                    reason=reason,
                    error=f"{kind}: {text}" if text else kind,
                    raw=read_payload(raw) if raw else None,
                )
            )
