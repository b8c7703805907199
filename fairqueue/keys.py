"""Every key of a shard. All begin with one hash tag, so a shard is one slot of a cluster.

``{ns:shard}`` stands for the tag; ``t q id`` are percent-encoded ids, ``p`` is a worker queue, ``g``
a concurrency group ``name=id``, ``s`` a stream ``t/q/p/priority[/g...]``.

=============================  ======  ==========================================================
key                            type    holds
=============================  ======  ==========================================================
{ns:shard}                     hash    schema, shards, owner; seq; counters; pool:p for each p
{ns:shard}:messages            hash    t/q/id -> record of every living message, dead ones included
{ns:shard}:streams             zset    s, by name: the streams that have messages
{ns:shard}:stream:s            zset    sequence number + id -> order time (ms)
{ns:shard}:ready:p/t           zset    s whose head is due -> order of its head
{ns:shard}:delayed:p           zset    s whose head lies in the future -> its due time
{ns:shard}:act:p               zset    t that may be served -> virtual finish tag of its next message
{ns:shard}:lane:p              zset    t at or under its share, not served yet -> place
{ns:shard}:tags:p              zset    t outside act -> last finish tag, while it lies ahead
{ns:shard}:clock:p             hash    v, turn, seq of the policy; n living messages; asked; off, idle
{ns:shard}:groups              hash    g -> slots in use; g# -> limit set at run time; g?, g+ below
{ns:shard}:asked               zset    g whose limit a callable gives -> when it was asked last (ms)
{ns:shard}:paused              hash    t or t/q that is paused -> since when (ms)
{ns:shard}:resuming            zset    t or t/q whose pause is over and whose streams are not all back
{ns:shard}:waiting             hash    g -> worker queues with streams parked on it
{ns:shard}:waiters:p/g         zset    t -> tag it had when it was parked
{ns:shard}:parked:p/g/t        zset    s -> order of its head
{ns:shard}:blocked             hash    s -> g it is parked on (!t, !t/q: a pause)
{ns:shard}:admitting           zset    g whose limit was raised -> how many are still to be woken
{ns:shard}:weights             hash    t -> weight
{ns:shard}:queue:p             list    dispatched messages, until they are taken
{ns:shard}:idle:p              zset    wake-up channel of a waiting process -> its next look (ms)
{ns:shard}:leases              zset    t/q/id -> deadline (ms)
{ns:shard}:lease               hash    t/q/id -> token, stream, place, attempt, deliveries
{ns:shard}:dead:t              zset    t/q/id -> time of death (ms)
{ns:shard}:letters             zset    t that has dead letters -> when its oldest died, or earlier (ms)
{ns:shard}:redriving:t         zset    a call that redrives all letters of t -> up to which time (ms)
{ns:shard}:ended:t/q/id        string  how it ended, for the dedupe window
=============================  ======  ==========================================================

Of a group whose limit a callable gives, ``g?`` holds what it said last and ``g+`` the number of streams with
messages of it; both go with the group's last message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from fairqueue.ids import quote, unquote

if TYPE_CHECKING:
    from collections.abc import Iterable


@attrs.frozen
class Keys:
    """The keys of one namespace."""

    namespace: str

    def root(self, shard: int) -> str:
        """``Keys("mail").root(3) -> "{mail:3}"``."""
        return f"{{{self.namespace}:{shard}}}"

    def stream(self, shard: int, name: str) -> str:
        """The sorted set of one stream."""
        return f"{self.root(shard)}:stream:{name}"

    def worker_queue(self, shard: int, name: str) -> str:
        """The list of messages dispatched to one worker queue."""
        return f"{self.root(shard)}:queue:{quote(name)}"

    def dead(self, shard: int, tenant_id: str) -> str:
        """The dead letters of one tenant."""
        return f"{self.root(shard)}:dead:{quote(tenant_id)}"

    def redriving(self, shard: int, tenant_id: str) -> str:
        """Those who redrive all letters of one tenant now."""
        return f"{self.root(shard)}:redriving:{quote(tenant_id)}"

    def part(self, shard: int, name: str) -> str:
        """One of the keys without ids of its own: ``messages``, ``leases``, ``groups``..."""
        return f"{self.root(shard)}:{name}"

    def channel(self, process: str) -> str:
        """The wake-up channel of one process."""
        return f"{self.namespace}:wake:{process}"


def message_key(tenant_id: str, queue_id: str, message_id: str) -> str:
    """Field of a message's record; injective, since every part is percent-encoded."""
    return f"{quote(tenant_id)}/{quote(queue_id)}/{quote(message_id)}"


def split_message_key(key: str) -> tuple[str, str, str]:
    """The three ids that `message_key` joined."""
    tenant, queue, message = key.split("/")
    return unquote(tenant), unquote(queue), unquote(message)


def group_key(name: str, group_id: str | tuple[str, ...]) -> str:
    """A concurrency group; a tuple of ids stays apart from every other."""
    parts = (group_id,) if isinstance(group_id, str) else group_id
    return f"{quote(name)}={','.join(quote(part) for part in parts)}"


def split_group_key(key: str) -> tuple[str, tuple[str, ...]]:
    """Name and ids that `group_key` joined."""
    name, _, parts = key.partition("=")
    return unquote(name), tuple(unquote(part) for part in parts.split(","))


def stream_name(tenant_id: str, queue_id: str, worker_queue: str, priority: int, groups: Iterable[str]) -> str:
    """The stream of a message: what decides its place, its slots and its workers."""
    return "/".join([quote(tenant_id), quote(queue_id), quote(worker_queue), str(priority), *groups])
