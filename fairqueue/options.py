"""Options: frozen, keyword-only, checked at birth; nothing is clamped or ignored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import attrs

from fairqueue.durations import as_seconds, as_seconds_or_none, limit, or_none, seconds, whole, within, yes_or_no
from fairqueue.errors import ConfigurationError, shown
from fairqueue.ids import check_id, check_namespace
from fairqueue.payload import Codec
from fairqueue.ratelimit import RateLimiter
from fairqueue.retry import MAX_ATTEMPTS, RetryPolicy
from fairqueue.scheduler import Fair, Policy, Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fairqueue.message import NewMessage

DAY = 86_400  # seconds
GroupId = str | tuple[str, ...]


def _is_id(_: object, field: attrs.Attribute[Any], value: object) -> None:
    check_id(field.name, value)


def _is_namespace(_: object, __: attrs.Attribute[Any], value: object) -> None:
    check_namespace(value)


def is_limit(_: object, field: attrs.Attribute[Any], value: object) -> None:
    """An attrs validator: ConfigurationError unless it is a limit."""
    limit(field.name, value)


def _is_callable(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if not callable(value):
        raise ConfigurationError(f"{field.name}={shown(value)} is not allowed: it must be callable")


def is_a(kind: Any, need: str) -> Callable[[object, attrs.Attribute[Any], object], None]:
    """An attrs validator: ConfigurationError unless it is an instance of *kind*; *need* says what is needed."""

    def validate(_: object, field: attrs.Attribute[Any], value: object) -> None:
        if isinstance(value, type) or not isinstance(value, kind):
            raise ConfigurationError(f"{field.name}={shown(value)} is not allowed: {need} is needed")

    return validate


def is_order(_: object, field: attrs.Attribute[Any], value: object) -> None:
    """An attrs validator: ConfigurationError unless it is an order of a tenant's queues."""
    if value not in ("oldest", "round_robin"):
        raise ConfigurationError(f"{field.name}={shown(value)} is not allowed: 'oldest' or 'round_robin' is needed")


@attrs.frozen(kw_only=True)
class ConcurrencyGroup:
    """A limit on how many messages run at once for each id that *group_id* gives. No name is special.

    Args:
        name: an id.
        group_id: gives a new message's id in this group: a str, or a tuple of str. Called at enqueue.
        default_limit: None is unlimited, 0 pauses, at most 1,000,000.
        limit: gives the limit of one group id (a tuple of one as its str), asked again every `limit_ttl`; beats
            *default_limit*, and ``q.groups.set_limit`` beats both. One that raises keeps its last good answer.

    Raises:
        InvalidId: *name* is not an id.
        ConfigurationError: another value breaks its rule.
    """

    name: str = attrs.field(validator=_is_id)
    group_id: Callable[[NewMessage], GroupId] = attrs.field(validator=_is_callable)
    default_limit: int | None = attrs.field(validator=is_limit)
    limit: Callable[[GroupId], int | None] | None = attrs.field(default=None, validator=or_none(_is_callable))


@attrs.frozen(kw_only=True)
class Cooloff:
    """Rest a queue for *period* seconds after *threshold* failures in a row.

    Raises:
        ConfigurationError: a value is out of range.
    """

    threshold: int = attrs.field(default=10, validator=within(whole, 1, 1_000_000))
    period: float = attrs.field(default=10, converter=as_seconds, validator=within(seconds, 0.001, DAY))


def _groups(value: Iterable[ConcurrencyGroup]) -> tuple[ConcurrencyGroup, ...]:
    try:
        groups = tuple(value)
    except TypeError:
        raise ConfigurationError(f"concurrency_groups={shown(value)}: a list of ConcurrencyGroup is needed") from None
    names = set()
    for group in groups:
        if not isinstance(group, ConcurrencyGroup):
            raise ConfigurationError(f"concurrency_groups holds {shown(group)}: a ConcurrencyGroup is needed")
        if group.name in names:
            raise ConfigurationError(f"concurrency_groups: two groups have the name {shown(group.name)}")
        names.add(group.name)
    return groups


@attrs.frozen(kw_only=True)
class FairQueueOptions:
    """How a FairQueue behaves. Durations are seconds: int, float or timedelta.

    Raises:
        InvalidId: *worker_queue* is a str, but not an id.
        ConfigurationError: a value is out of its range, or two contradict each other.
    """

    #: Prefix of all keys: 1 to 64 characters of ``A-Z a-z 0-9 _ . -``.
    namespace: str = attrs.field(default="fairqueue", validator=_is_namespace)
    #: Hash slots to spread tenants over, 1 to 1024; never changes while the namespace lives.
    shard_count: int = attrs.field(default=1, validator=within(whole, 1, 1024))
    #: Gives the shard key of a tenant id: a wider id, so that its limits are exact. None: the tenant id.
    shard_by: Callable[[str], str] | None = attrs.field(default=None, validator=or_none(_is_callable))
    #: Whose message is next.
    scheduler: Policy | Scheduler = attrs.field(
        factory=Fair, validator=is_a((Policy, Scheduler), "a policy such as Fair(), or an object with select(view)")
    )
    #: Which of a tenant's queues is next: the one with the oldest head, or each in turn ("round_robin").
    tenant_order: Literal["oldest", "round_robin"] = attrs.field(default="oldest", validator=is_order)
    #: Limits on what runs at once; a message takes a slot in each.
    concurrency_groups: tuple[ConcurrencyGroup, ...] = attrs.field(default=(), converter=_groups)
    #: Which pool of workers a message is for: a name, or a function of the message, asked at enqueue.
    worker_queue: str | Callable[[NewMessage], str] = attrs.field(default="default")
    #: Which failures are tried again, and when. None: none.
    retry: RetryPolicy | None = attrs.field(
        default=None, validator=or_none(is_a(RetryPolicy, "an object with next_delay(attempt, error)"))
    )
    #: Keep messages that are given up on; False: discard them, with a hook and a metric.
    dead_letters: bool = attrs.field(default=True, validator=yes_or_no)
    #: Dead letters kept of each tenant: beyond them the oldest goes. None: no bound.
    dead_letter_limit: int | None = attrs.field(default=100_000, validator=or_none(within(whole, 1, 100_000_000)))
    #: Time for which a dead letter is kept. None: for ever.
    dead_letter_ttl: float | None = attrs.field(
        default=None, converter=as_seconds_or_none, validator=or_none(within(seconds, 1, 3650 * DAY))
    )
    #: Length of a lease, 0.1 s to 12 h, from the moment of delivery or of the last beat.
    visibility_timeout: float = attrs.field(default=30, converter=as_seconds, validator=within(seconds, 0.1, DAY / 2))
    #: Time between two beats, shorter than *visibility_timeout*. None: a third of it.
    heartbeat_interval: float | None = attrs.field(
        default=None, converter=as_seconds_or_none, validator=or_none(within(seconds, 0.01, DAY / 2))
    )
    #: Leases after which a message is dead, whatever the policy says. None: off.
    max_deliveries: int | None = attrs.field(default=20, validator=or_none(within(whole, 1, MAX_ATTEMPTS)))
    #: Time after which a handler's lease is not renewed any more and its thread is left behind. None: off.
    max_run_time: float | None = attrs.field(
        default=None, converter=as_seconds_or_none, validator=or_none(within(seconds, 0.1, 365 * DAY))
    )
    #: Pause between two looks for leases that ran out.
    reclaim_interval: float = attrs.field(default=1, converter=as_seconds, validator=within(seconds, 0.01, 3600))
    #: Pause between two audits for slots without a holder. None: off.
    sweep_interval: float | None = attrs.field(
        default=60, converter=as_seconds_or_none, validator=or_none(within(seconds, 0.01, DAY))
    )
    #: Messages dispatched in one call of a dispatcher loop.
    dispatch_batch_size: int = attrs.field(default=64, validator=within(whole, 1, 500))
    #: Messages dispatched ahead of the workers that wait, for each worker queue.
    worker_queue_max_depth: int = attrs.field(default=64, validator=within(whole, 1, 100_000))
    #: Threads of dispatcher loops; each serves its share of the shards.
    dispatcher_threads: int = attrs.field(default=1, validator=within(whole, 1, 64))
    #: Class that payloads come back as (see `fairqueue.payload.Codec`). None: plain JSON values.
    payload_type: Any = None
    #: Check payloads against *payload_type* at enqueue too.
    validate_on_enqueue: bool = attrs.field(default=False, validator=yes_or_no)
    #: Cap on the encoded payload.
    max_payload_bytes: int = attrs.field(default=262_144, validator=within(whole, 1, 64 * 2**20))
    #: Time for which a finished message's id stays taken.
    dedupe_window: float = attrs.field(default=0, converter=as_seconds, validator=within(seconds, 0, 30 * DAY))
    #: Age at which limits from callables are asked for again.
    limit_ttl: float = attrs.field(default=5, converter=as_seconds, validator=within(seconds, 0.05, 3600))
    #: Spends a token for each message in hand.
    rate_limiter: RateLimiter | None = attrs.field(
        default=None, validator=or_none(is_a(RateLimiter, "an object with acquire(n)"))
    )
    #: Use a server whose maxmemory-policy is not noeviction, although it may throw messages away.
    allow_eviction: bool = attrs.field(default=False, validator=yes_or_no)
    #: Rest for queues whose messages keep failing. None: off.
    cooloff: Cooloff | None = attrs.field(default=None, validator=or_none(is_a(Cooloff, "a Cooloff")))

    @worker_queue.validator
    def _names_a_worker_queue(self, _: object, value: object) -> None:
        if not callable(value):
            check_id("worker_queue", value)

    def __attrs_post_init__(self) -> None:
        """Check what takes two options to go wrong."""
        if self.heartbeat_interval is not None and self.heartbeat_interval >= self.visibility_timeout:
            raise ConfigurationError(
                f"heartbeat_interval={self.heartbeat_interval} must be shorter than "
                f"visibility_timeout={self.visibility_timeout}: a lease would run out between two beats"
            )
        if self.validate_on_enqueue and self.payload_type is None:
            raise ConfigurationError("validate_on_enqueue=True needs a payload_type to check against")
        Codec(self.payload_type)

    @property
    def timeout(self) -> float:
        """Seconds of a lease."""
        return float(self.visibility_timeout)

    @property
    def beat_every(self) -> float:
        """Seconds between two heartbeats."""
        return self.timeout / 3 if self.heartbeat_interval is None else float(self.heartbeat_interval)
