"""``q.tenants``: who is served, and with what weight."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from fairqueue.durations import weight as checked_weight
from fairqueue.ids import quote, unquote
from fairqueue.views.page import Page, paged

if TYPE_CHECKING:
    from fairqueue.resolver import Resolver
    from fairqueue.store.state import State


@attrs.frozen(kw_only=True)
class TenantSettings:
    """What is set for a tenant."""

    weight: float


@attrs.frozen
class Tenants:
    """``q.tenants``."""

    _resolver: Resolver
    _state: State
    _shards: range

    def shard(self, tenant_id: str) -> int:
        """The shard that holds a tenant."""
        return self._resolver.shard(tenant_id)

    def settings(self, tenant_id: str) -> TenantSettings:
        """What is set for a tenant."""
        return TenantSettings(weight=self._state.weight(self._resolver.shard(tenant_id), tenant_id))

    def list(self, *, limit: int = 100, cursor: str | None = None) -> Page[str]:
        """Tenants with messages that wait, by name, shard by shard."""

        def read(shard: int, after: str, n: int) -> list[tuple[str, str]]:
            return [(name, unquote(name)) for name in self._state.tenants(shard, after, n)]

        return paged(self._shards, cursor, limit, read)

    def purge(self, tenant_id: str) -> int:
        """End every message of a tenant that waits; how many. Those dispatched, leased or dead stay."""
        return self._state.purge(self._resolver.shard(tenant_id), quote(tenant_id) + "/")

    def set(self, tenant_id: str, *, weight: float | None) -> None:
        """A tenant's weight from its next message on: its share is its weight's part of all weights. None: back to 1.

        Raises:
            InvalidArgument: not a number from 0.000001 to 1,000,000.
        """
        self._state.set_weight(
            self._resolver.shard(tenant_id), tenant_id, None if weight is None else checked_weight("weight", weight)
        )
