"""``q.queues``: what waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from fairqueue.ids import check_id, quote, unquote
from fairqueue.message import MessageInfo, QueueInfo, moment, read_info
from fairqueue.views.page import MAX_PAGE, Page, page_size, paged

if TYPE_CHECKING:
    from fairqueue.payload import Codec
    from fairqueue.resolver import Resolver
    from fairqueue.store.state import State


@attrs.frozen
class Queues:
    """``q.queues``."""

    _resolver: Resolver
    _state: State
    _codec: Codec
    _shards: range

    def length(self, tenant_id: str, queue_id: str = "default") -> int:
        """Messages that wait in a queue, delayed ones included; not those dispatched or leased."""
        check_id("queue_id", queue_id)
        return self._state.length(self._resolver.shard(tenant_id), tenant_id, queue_id)

    def count(self) -> int:
        """Queues with messages that wait."""
        total, cursor = 0, None
        while True:
            page = self.list(limit=MAX_PAGE, cursor=cursor)
            total, cursor = total + len(page.items), page.cursor
            if cursor is None:
                return total

    def peek(self, tenant_id: str, queue_id: str = "default", *, limit: int = 10) -> list[MessageInfo]:
        """The next messages of a queue in their order, untouched."""
        check_id("queue_id", queue_id)
        shard = self._resolver.shard(tenant_id)
        rows, _ = self._state.messages(shard, tenant_id, queue_id, ("", ""), page_size(limit))
        paused = self._state.paused(shard, tenant_id) or self._state.paused(shard, tenant_id, queue_id)
        return [read_info(key, state, record, self._codec, paused=paused) for state, key, record in rows]

    def pause(self, tenant_id: str, queue_id: str = "default") -> None:
        """Nothing of a queue starts from now on, until `resume`; as `q.tenants.pause`, for one queue."""
        check_id("queue_id", queue_id)
        self._state.pause(self._resolver.shard(tenant_id), tenant_id, queue_id)

    def resume(self, tenant_id: str, queue_id: str = "default") -> None:
        """The queue is served again, unless its tenant is paused."""
        check_id("queue_id", queue_id)
        self._state.resume(self._resolver.shard(tenant_id), tenant_id, queue_id)

    def paused(self, tenant_id: str, queue_id: str = "default") -> bool:
        """Whether a queue is paused by itself (its tenant may be: see `q.tenants.settings`)."""
        check_id("queue_id", queue_id)
        return self._state.paused(self._resolver.shard(tenant_id), tenant_id, queue_id)

    def purge(self, tenant_id: str, queue_id: str = "default") -> int:
        """End every message that waits in a queue; how many. Those dispatched or leased go on."""
        check_id("queue_id", queue_id)
        return self._state.purge(self._resolver.shard(tenant_id), f"{quote(tenant_id)}/{quote(queue_id)}/")

    def list(self, tenant_id: str | None = None, *, limit: int = 100, cursor: str | None = None) -> Page[QueueInfo]:
        """Queues with messages that wait, of one tenant or of all, by name; go on with the page's ``cursor``."""
        shards = self._shards if tenant_id is None else [self._resolver.shard(tenant_id)]

        def read(shard: int, after: str, n: int) -> list[tuple[str, QueueInfo]]:
            return [
                (name, _queue_info(name, waiting, oldest, paused=paused))
                for name, waiting, oldest, paused in self._state.queues(shard, tenant_id, after, n)
            ]

        return paged(shards, cursor, limit, read)


def _queue_info(name: str, waiting: int, oldest: float, *, paused: bool) -> QueueInfo:
    tenant, queue = name.split("/")
    return QueueInfo(
        tenant_id=unquote(tenant), queue_id=unquote(queue), waiting=waiting, oldest=moment(oldest), paused=paused
    )
