"""Options of a BatchQueue: frozen, keyword-only, checked at birth."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

import attrs

from batchqueue.keys import BATCH_GROUP, TENANT_GROUP, groups_of
from fairqueue.durations import as_seconds, as_seconds_or_none, or_none, seconds, whole, within
from fairqueue.errors import ConfigurationError
from fairqueue.options import ConcurrencyGroup, FairQueueOptions, is_a, is_limit, is_order
from fairqueue.retry import ExponentialBackoff, RetryPolicy
from fairqueue.scheduler import Fair, Policy, Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairqueue.message import NewMessage
    from fairqueue.ratelimit import RateLimiter

DAY = 86_400  # seconds
DEPTH_VARIABLE = "BATCH_QUEUE_WORKER_QUEUE_MAX_DEPTH"


_is_policy = is_a(RetryPolicy, "an object with next_delay(attempt, error)")


def _depth() -> int:
    given = os.environ.get(DEPTH_VARIABLE, "64")
    if not given.isdecimal():
        raise ConfigurationError(f"{DEPTH_VARIABLE}={given!r} in the environment is not a whole number")
    return int(given)


@attrs.frozen(kw_only=True)
class BatchQueueOptions:
    """How a BatchQueue behaves. Durations are seconds: int, float or timedelta.

    What is not explained here means what it means in `fairqueue.FairQueueOptions`.

    Raises:
        ConfigurationError: a value is out of its range, or two contradict each other.
    """

    namespace: str = "batchqueue"
    #: Items of a tenant that run at once. None: unlimited.
    default_concurrency: int | None = attrs.field(default=10, validator=is_limit)
    #: Threads that process items, 1 to 1000.
    consumer_count: int = attrs.field(default=8, validator=within(whole, 1, 1000))
    scheduler: Policy | Scheduler = attrs.field(factory=Fair)
    #: Which of a tenant's batches is next: each in turn, or the oldest first ("oldest").
    order: Literal["round_robin", "oldest"] = attrs.field(default="round_robin", validator=is_order)
    #: Which failures of an item are tried again, and when. None: one attempt.
    retry: RetryPolicy | None = attrs.field(default=None, validator=or_none(_is_policy))
    #: The same for the completion callback.
    callback_retry: RetryPolicy = attrs.field(factory=ExponentialBackoff, validator=_is_policy)
    visibility_timeout: float = attrs.field(default=60, converter=as_seconds)
    heartbeat_interval: float | None = attrs.field(default=None, converter=as_seconds_or_none)
    max_deliveries: int | None = 20
    max_run_time: float | None = attrs.field(default=None, converter=as_seconds_or_none)
    reclaim_interval: float = attrs.field(default=1, converter=as_seconds)
    rate_limiter: RateLimiter | None = None
    #: Items dispatched ahead of the workers that wait. None: ``BATCH_QUEUE_WORKER_QUEUE_MAX_DEPTH`` or 64.
    worker_queue_max_depth: int | None = None
    #: Time for which an ended batch can be read, and answers late calls; then everything of it goes.
    retention: float = attrs.field(default=DAY, converter=as_seconds, validator=within(seconds, 0, 365 * DAY))
    #: Time in which a batch must be filled, else it is incomplete. None: for ever.
    fill_timeout: float | None = attrs.field(
        default=None, converter=as_seconds_or_none, validator=or_none(within(seconds, 0.001, 365 * DAY))
    )
    #: Cap on one item's result, as JSON.
    max_result_bytes: int = attrs.field(default=16_384, validator=within(whole, 1, 2**20))
    shard_count: int = 1
    shard_by: Callable[[str], str] | None = None
    #: Use a server whose maxmemory-policy is not noeviction, although it may throw items away.
    allow_eviction: bool = False
    dispatcher_threads: int = 1
    payload_type: Any = None
    validate_on_enqueue: bool = False
    max_payload_bytes: int = 262_144
    #: Time a stop waits for callbacks that run.
    grace: float = attrs.field(default=30, converter=as_seconds, validator=within(seconds, 0, DAY))

    def __attrs_post_init__(self) -> None:
        """Have the rest checked by those it is for."""
        self.queue_options()

    def queue_options(self) -> FairQueueOptions:
        """Options of the FairQueue inside."""
        return FairQueueOptions(
            namespace=self.namespace,
            shard_count=self.shard_count,
            shard_by=self.shard_by,
            allow_eviction=self.allow_eviction,
            scheduler=self.scheduler,
            tenant_order=self.order,
            concurrency_groups=(
                ConcurrencyGroup(
                    name=TENANT_GROUP, group_id=lambda m: self.groups_of(m)[0], default_limit=self.default_concurrency
                ),
                ConcurrencyGroup(name=BATCH_GROUP, group_id=lambda m: self.groups_of(m)[1], default_limit=None),
            ),
            retry=self.retry,
            dead_letters=False,  # failures are kept with their batch
            visibility_timeout=self.visibility_timeout,
            heartbeat_interval=self.heartbeat_interval,
            max_deliveries=self.max_deliveries,
            max_run_time=self.max_run_time,
            reclaim_interval=self.reclaim_interval,
            worker_queue_max_depth=_depth() if self.worker_queue_max_depth is None else self.worker_queue_max_depth,
            dispatcher_threads=self.dispatcher_threads,
            payload_type=self.payload_type,
            validate_on_enqueue=self.validate_on_enqueue,
            max_payload_bytes=self.max_payload_bytes,
            rate_limiter=self.rate_limiter,
        )

    def groups_of(self, message: NewMessage) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Group ids of an item: its tenant's and its batch's."""
        tenant_id = message.tenant_id
        return groups_of(self.shard_by(tenant_id) if self.shard_by else tenant_id, tenant_id, message.queue_id)
