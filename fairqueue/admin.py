"""What an application asks of a queue that runs: queues, messages, groups, tenants, worker queues, dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from fairqueue.durations import limit as checked_limit
from fairqueue.durations import seconds
from fairqueue.durations import weight as checked_weight
from fairqueue.errors import ConfigurationError, InvalidArgument
from fairqueue.ids import check_id
from fairqueue.keys import message_key
from fairqueue.message import DeadLetter, MessageInfo, read_info

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from fairqueue.options import FairQueueOptions, GroupId
    from fairqueue.payload import Codec
    from fairqueue.resolver import Resolver
    from fairqueue.store.dead_letters import DeadLetterStore
    from fairqueue.store.state import State
    from fairqueue.store.worker_queues import WorkerQueueStore

DAY = 86_400


@attrs.frozen
class Queues:
    """``q.queues``."""

    _resolver: Resolver
    _state: State

    def length(self, tenant_id: str, queue_id: str = "default") -> int:
        """Messages that wait in a queue, delayed ones included; not those dispatched or leased."""
        check_id("queue_id", queue_id)
        return self._state.length(self._resolver.shard(tenant_id), tenant_id, queue_id)


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
        return read_info(message_key(tenant_id, queue_id, message_id), reply, self._codec) if reply else None


@attrs.frozen
class InFlightView:
    """``q.inflight``."""

    _state: State
    _shards: range

    def count(self) -> int:
        """Leases held now."""
        return sum(self._state.in_flight(shard) for shard in self._shards)


@attrs.frozen
class WorkerQueues:
    """``q.worker_queues``."""

    _store: WorkerQueueStore
    _shards: range

    def length(self, name: str = "default") -> int:
        """Messages dispatched to a worker queue and not taken yet."""
        check_id("worker_queue", name)
        return sum(self._store.length(shard, name) for shard in self._shards)

    def clear(self, name: str = "default") -> int:
        """Give all of them back to their places; how many."""
        check_id("worker_queue", name)
        return sum(self._store.give_back(shard, name, older_than_ms=-1) for shard in self._shards)


@attrs.frozen(kw_only=True)
class TenantSettings:
    """What is set for a tenant."""

    weight: float


@attrs.frozen
class Tenants:
    """``q.tenants``."""

    _resolver: Resolver
    _state: State

    def shard(self, tenant_id: str) -> int:
        """The shard that holds a tenant."""
        return self._resolver.shard(tenant_id)

    def settings(self, tenant_id: str) -> TenantSettings:
        """What is set for a tenant."""
        return TenantSettings(weight=self._state.weight(self._resolver.shard(tenant_id), tenant_id))

    def set(self, tenant_id: str, *, weight: float | None) -> None:
        """A tenant's weight from its next message on: its share is its weight's part of all weights. None: back to 1.

        Raises:
            InvalidArgument: not a number from 0.000001 to 1,000,000.
        """
        self._state.set_weight(
            self._resolver.shard(tenant_id), tenant_id, None if weight is None else checked_weight("weight", weight)
        )


@attrs.frozen
class Groups:
    """``q.groups``: concurrency groups, live."""

    _resolver: Resolver
    _state: State
    _options: FairQueueOptions

    def names(self) -> list[str]:
        """In the order they are declared."""
        return [group.name for group in self._options.concurrency_groups]

    def usage(self, name: str, group_id: GroupId) -> tuple[int, int | None]:
        """Slots in use and the limit in force (None: unlimited)."""
        default = self._default(name)
        used, limit = self._state.usage(self._shard(group_id), name, group_id)
        return used, default if limit is None else None if limit < 0 else limit

    def capacity(self, name: str, group_id: GroupId) -> int | None:
        """Slots free now (None: unlimited)."""
        used, limit = self.usage(name, group_id)
        return None if limit is None else max(0, limit - used)

    def set_limit(self, name: str, group_id: GroupId, limit: int | None) -> None:
        """The limit of one id from now on: None unlimited, 0 paused. Running work is never revoked.

        Raises:
            InvalidArgument: not None or a whole number from 0 to 1,000,000.
        """
        self._default(name)
        checked = checked_limit("limit", limit, error=InvalidArgument)
        self._state.set_limit(self._shard(group_id), name, group_id, "-1" if checked is None else str(checked))

    def clear_limit(self, name: str, group_id: GroupId) -> None:
        """Back to the group's default."""
        self._default(name)
        self._state.set_limit(self._shard(group_id), name, group_id, "")

    def _default(self, name: str) -> int | None:
        for group in self._options.concurrency_groups:
            if group.name == name:
                return group.default_limit
        raise ConfigurationError(f"there is no concurrency group {name!r}; declared are {self.names()}")

    def _shard(self, group_id: GroupId) -> int:
        return self._resolver.shard_of_key(group_id if isinstance(group_id, str) else group_id[0])


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
