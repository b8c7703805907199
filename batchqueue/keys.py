"""Every key of batchqueue beside fairqueue's own (see `fairqueue.keys`), in the same shard.

``b`` is a batch: tenant and batch id, percent-encoded, joined by a slash; ``k`` a tenant and an
idempotency key, joined the same way.

=============================  ======  ==========================================================
key                            type    holds
=============================  ======  ==========================================================
{ns:shard}:batch:b             hash    state, phase, outcome, counts, parameters and metadata
{ns:shard}:items:b             string  one bit for each index that is in
{ns:shard}:succeeded:b         string  one bit for each index that succeeded
{ns:shard}:results:b           hash    index -> JSON of its result, where there is one
{ns:shard}:failed:b            zset    index of each failure -> index
{ns:shard}:failures:b          hash    index -> when, attempts, code, error and payload
{ns:shard}:redriving:b         zset    failures taken back that are not enqueued yet
{ns:shard}:batches             zset    b, by name
{ns:shard}:batch_due           zset    b -> when time changes something about it (ms)
{ns:shard}:idem:k              string  b that was made with this idempotency key
=============================  ======  ==========================================================
"""

from __future__ import annotations

from fairqueue.ids import quote, unquote
from fairqueue.keys import split_message_key

#: The queue of callback messages, as encoded: no queue id encodes to it.
CALLBACKS = "~callbacks"
#: Names of the two concurrency groups of an item.
TENANT_GROUP = "tenant"
BATCH_GROUP = "batch"


def batch_key(tenant_id: str, batch_id: str) -> str:
    """Name of a batch within its shard: ``batch_key("acme", "a/b") -> "acme/a%2Fb"``."""
    return f"{quote(tenant_id)}/{quote(batch_id)}"


def split_batch_key(key: str) -> tuple[str, str]:
    """The two ids that `batch_key` joined."""
    tenant_id, _, batch_id = key.partition("/")
    return unquote(tenant_id), unquote(batch_id)


def is_callback(message_key: str) -> bool:
    """Whether a message is the callback of a batch."""
    return message_key.split("/")[1] == CALLBACKS


def batch_of(message_key: str) -> tuple[str, str]:
    """Tenant and batch of a message: of an item by its queue, of a callback by its id."""
    tenant_id, queue_id, message_id = split_message_key(message_key)
    return tenant_id, message_id if is_callback(message_key) else queue_id


def groups_of(shard_key: str, tenant_id: str, batch_id: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Group ids of an item: its tenant's and its batch's, each beginning with the shard key."""
    wider = () if shard_key == tenant_id else (shard_key,)
    return (*wider, tenant_id), (*wider, tenant_id, batch_id)
