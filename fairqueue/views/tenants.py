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
    paused: bool


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
        shard = self._resolver.shard(tenant_id)
        return TenantSettings(weight=self._state.weight(shard, tenant_id), paused=self._state.paused(shard, tenant_id))

    def pause(self, tenant_id: str) -> None:
        """Nothing of a tenant starts from now on, until `resume`; it may not exist yet, and twice is once.

        What was dispatched goes back to its place. Deliveries under way go on, beat and settle; enqueueing goes
        on, and delays run. Lasts through restarts, and while messages come and go.
        """
        self._state.pause(self._resolver.shard(tenant_id), tenant_id)

    def resume(self, tenant_id: str) -> None:
        """The tenant is served again, in fair turn: it is owed nothing for the time it was paused."""
        self._state.resume(self._resolver.shard(tenant_id), tenant_id)

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
