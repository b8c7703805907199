"""``q.groups``: concurrency groups, live."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from fairqueue.durations import limit as checked_limit
from fairqueue.errors import ConfigurationError, InvalidArgument
from fairqueue.ids import check_id
from fairqueue.keys import split_group_key, split_message_key

if TYPE_CHECKING:
    from fairqueue.limits import LiveLimits
    from fairqueue.options import FairQueueOptions, GroupId
    from fairqueue.resolver import Resolver
    from fairqueue.store.state import State


@attrs.frozen(kw_only=True)
class FullGroup:
    """A group without a free slot."""

    name: str
    group_id: GroupId
    current: int
    limit: int | None


@attrs.frozen
class Groups:
    """``q.groups``: concurrency groups, live."""

    _resolver: Resolver
    _state: State
    _options: FairQueueOptions
    _limits: LiveLimits

    def names(self) -> list[str]:
        """In the order they are declared."""
        return [group.name for group in self._options.concurrency_groups]

    def usage(self, name: str, group_id: GroupId) -> tuple[int, int | None]:
        """Slots in use and the limit in force (None: unlimited). Of a group without messages, its callable is asked."""
        default = self._default(name)
        used, limit, said = self._state.usage(self._shard(group_id), name, group_id)
        if limit is None and self._limits.gives(name):
            limit = self._limits.now(name, group_id) if said is None else said
        return used, default if limit is None else None if limit < 0 else limit

    def capacity(self, name: str, group_id: GroupId) -> int | None:
        """Slots free now (None: unlimited)."""
        used, limit = self.usage(name, group_id)
        return None if limit is None else max(0, limit - used)

    def holders(self, name: str, group_id: GroupId) -> list[tuple[str, str, str]]:
        """Tenant, queue and message id of those that hold a slot, dispatched or leased."""
        self._default(name)
        return [split_message_key(key) for key in self._state.holders(self._shard(group_id), name, group_id)]

    def blocking(self, tenant_id: str, queue_id: str = "default") -> list[FullGroup]:
        """The full groups that hold back a queue's waiting messages; empty when none does."""
        check_id("queue_id", queue_id)
        found = []
        for key in self._state.blocking(self._resolver.shard(tenant_id), tenant_id, queue_id):
            name, parts = split_group_key(key)
            group_id: GroupId = parts if len(parts) > 1 else parts[0]
            used, limit = self.usage(name, group_id)
            found.append(FullGroup(name=name, group_id=group_id, current=used, limit=limit))
        order = self.names()
        return sorted(found, key=lambda group: order.index(group.name))

    def set_limit(self, name: str, group_id: GroupId, limit: int | None) -> None:
        """The limit of one id from now on: None unlimited, 0 paused. Running work is never revoked.

        Raises:
            InvalidArgument: not None or a whole number from 0 to 1,000,000.
        """
        self._default(name)
        checked = checked_limit("limit", limit, error=InvalidArgument)
        self._state.set_limit(self._shard(group_id), name, group_id, "-1" if checked is None else str(checked))

    def clear_limit(self, name: str, group_id: GroupId) -> None:
        """Back to what the group's callable says, or to its default."""
        self._default(name)
        self._state.set_limit(self._shard(group_id), name, group_id, "")

    def _default(self, name: str) -> int | None:
        for group in self._options.concurrency_groups:
            if group.name == name:
                return group.default_limit
        raise ConfigurationError(f"there is no concurrency group {name!r}; declared are {self.names()}")

    def _shard(self, group_id: GroupId) -> int:
        return self._resolver.shard_of_key(group_id if isinstance(group_id, str) else group_id[0])
