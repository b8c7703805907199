"""``q.dead_letters``: messages that are given up on, by tenant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from fairqueue.durations import seconds
from fairqueue.ids import check_id
from fairqueue.keys import message_key

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from fairqueue.message import DeadLetter
    from fairqueue.resolver import Resolver
    from fairqueue.store.dead_letters import DeadLetterStore

DAY = 86_400


@attrs.frozen
class DeadLetters:
    """``q.dead_letters``: messages that are given up on, by tenant."""

    _resolver: Resolver
    _store: DeadLetterStore
    _now_ms: Callable[[], int]

    def count(self, tenant_id: str) -> int:
        """How many a tenant has."""
        return self._store.count(self._resolver.shard(tenant_id), tenant_id)

    def list(self, tenant_id: str, *, limit: int = 100, cursor: int | None = None) -> list[DeadLetter]:
        """A page, the oldest first; *cursor* is how many to pass over."""
        return self._store.page(self._resolver.shard(tenant_id), tenant_id, after=cursor or 0, limit=limit)

    def redrive(self, tenant_id: str, queue_id: str, message_id: str) -> bool:
        """Back to its queue with attempt 1 and its history; False when it is not dead."""
        check_id("queue_id", queue_id)
        check_id("message_id", message_id)
        key = message_key(tenant_id, queue_id, message_id)
        return self._store.redrive(self._resolver.shard(tenant_id), [key])[0]

    def purge(self, tenant_id: str, *, older_than: float | timedelta | None = None) -> int:
        """Delete a tenant's letters, or those dead for longer than *older_than* seconds; how many."""
        before = (
            None
            if older_than is None
            else self._now_ms() - int(seconds("older_than", older_than, maximum=3650 * DAY) * 1000)
        )
        return self._store.purge(self._resolver.shard(tenant_id), tenant_id, before_ms=before)
