"""``q.inflight``: deliveries under way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from fairqueue.keys import split_message_key
from fairqueue.message import InflightInfo, moment
from fairqueue.views.page import Page, paged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairqueue.store.state import State


@attrs.frozen
class InFlight:
    """``q.inflight``."""

    _state: State
    _shards: range

    def count(self) -> int:
        """Leases held now."""
        return sum(self._state.in_flight(shard) for shard in self._shards)

    def list(self, *, limit: int = 100, cursor: str | None = None) -> Page[InflightInfo]:
        """Deliveries under way, shard by shard, the next to run out first."""

        def read(shard: int, after: str, n: int) -> list[tuple[str, InflightInfo]]:
            at = int(after or 0)
            reply = self._state.leases(shard, at, n)
            rows = [reply[i : i + 7] for i in range(0, len(reply), 7)]
            return [(str(at + i + 1), _inflight_info(row)) for i, row in enumerate(rows)]

        return paged(self._shards, cursor, limit, read)


def _inflight_info(row: Sequence[Any]) -> InflightInfo:
    key, deadline, token, attempt, deliveries, since, worker = row
    tenant_id, queue_id, message_id = split_message_key(key.decode())
    return InflightInfo(
        tenant_id=tenant_id,
        queue_id=queue_id,
        message_id=message_id,
        token=token.decode(),
        attempt=attempt,
        deliveries=deliveries,
        worker_id=worker.decode(),
        since=moment(since),
        deadline=moment(float(deadline)),
    )
