"""``q.worker_queues``: messages dispatched ahead of their workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from fairqueue.ids import check_id
from fairqueue.keys import message_key, split_message_key
from fairqueue.views.page import page_size

if TYPE_CHECKING:
    from fairqueue.resolver import Resolver
    from fairqueue.store.worker_queues import WorkerQueueStore


@attrs.frozen
class WorkerQueues:
    """``q.worker_queues``."""

    _store: WorkerQueueStore
    _shards: range
    _resolver: Resolver

    def length(self, name: str = "default") -> int:
        """Messages dispatched to a worker queue and not taken yet."""
        check_id("worker_queue", name)
        return sum(self._store.length(shard, name) for shard in self._shards)

    def peek(self, name: str = "default", *, limit: int = 100) -> list[tuple[str, str, str]]:
        """Tenant, queue and message id of what is in it, in the order it will be taken (shard by shard)."""
        check_id("worker_queue", name)
        return [
            split_message_key(key) for shard in self._shards for key in self._store.peek(shard, name, page_size(limit))
        ][:limit]

    def remove(self, tenant_id: str, queue_id: str, message_id: str) -> bool:
        """Give one message back to its place; False when it is in no worker queue."""
        key = message_key(tenant_id, check_id("queue_id", queue_id), check_id("message_id", message_id))
        return self._store.withdraw(self._resolver.shard(tenant_id), key)

    def clear(self, name: str = "default") -> int:
        """Give all of them back to their places; how many."""
        check_id("worker_queue", name)
        return sum(self._store.give_back(shard, name, older_than_ms=-1) for shard in self._shards)
