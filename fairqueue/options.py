"""Options: frozen, keyword-only, checked at birth; nothing is clamped or ignored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from fairqueue.durations import limit, seconds, whole
from fairqueue.errors import ConfigurationError
from fairqueue.ids import check_id, check_namespace
from fairqueue.message import NewMessage
from fairqueue.retry import RetryPolicy
from fairqueue.scheduler import Fair

GroupId = str | tuple[str, ...]


def _is_limit(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
    limit(attribute.name, value)


def _is_id(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
    check_id(attribute.name, value)


def _between(minimum: float, maximum: float, *, optional: bool = False) -> Callable[[object, attrs.Attribute[Any], object], None]:
    def check(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
        if not (optional and value is None):
            seconds(attribute.name, value, minimum=minimum, maximum=maximum, error=ConfigurationError)

    return check


def _count(minimum: int, maximum: int, *, optional: bool = False) -> Callable[[object, attrs.Attribute[Any], object], None]:
    def check(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
        if not (optional and value is None):
            whole(attribute.name, value, minimum=minimum, maximum=maximum)

    return check


@attrs.frozen(kw_only=True)
class ConcurrencyGroup:
    """A limit on how many messages run at once for each id that *group_id* gives.

    *default_limit*: None is unlimited, 0 pauses; ``q.groups.set_limit`` beats it for one id.
    """

    name: str = attrs.field(validator=_is_id)
    group_id: Callable[[NewMessage], GroupId] = attrs.field(validator=attrs.validators.is_callable())
    default_limit: int | None = attrs.field(validator=_is_limit)


def _unique_groups(_: object, attribute: attrs.Attribute[Any], value: tuple[ConcurrencyGroup, ...]) -> None:
    for group in value:
        if not isinstance(group, ConcurrencyGroup):
            msg = f"{attribute.name} holds {group!r}: a ConcurrencyGroup is needed"
            raise ConfigurationError(msg)
    if len({group.name for group in value}) != len(value):
        msg = f"{attribute.name}: two groups have the same name"
        raise ConfigurationError(msg)


def _is_worker_queue(_: object, __: attrs.Attribute[Any], value: object) -> None:
    if not callable(value):
        check_id("worker_queue", value)


def _is_retry(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if value is not None and not isinstance(value, RetryPolicy):
        msg = f"{attribute.name}={value!r} is not a retry policy: next_delay(attempt, error) is needed"
        raise ConfigurationError(msg)


def _is_namespace(_: object, __: attrs.Attribute[Any], value: object) -> None:
    check_namespace(value)


@attrs.frozen(kw_only=True)
class FairQueueOptions:
    """How a FairQueue behaves. Durations are seconds (float or timedelta).

    Raises:
        ConfigurationError: a value is out of its range or two contradict each other.
    """

    namespace: str = attrs.field(default="fairqueue", validator=_is_namespace)
    shard_count: int = attrs.field(default=1, validator=_count(1, 1024))
    shard_by: Callable[[str], str] | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.is_callable())
    )
    scheduler: Fair = attrs.field(factory=Fair, validator=attrs.validators.instance_of(Fair))
    concurrency_groups: tuple[ConcurrencyGroup, ...] = attrs.field(default=(), converter=tuple, validator=_unique_groups)
    worker_queue: str | Callable[[NewMessage], str] = attrs.field(default="default", validator=_is_worker_queue)
    retry: RetryPolicy | None = attrs.field(default=None, validator=_is_retry)
    dead_letters: bool = attrs.field(default=True, validator=attrs.validators.instance_of(bool))
    visibility_timeout: float = attrs.field(default=30, validator=_between(0.05, 43_200))
    heartbeat_interval: float | None = attrs.field(default=None, validator=_between(0.01, 43_200, optional=True))
    max_deliveries: int | None = attrs.field(default=20, validator=_count(1, 60_000, optional=True))
    max_run_time: float | None = attrs.field(default=None, validator=_between(0.01, 31_536_000, optional=True))
    reclaim_interval: float = attrs.field(default=1, validator=_between(0.01, 3600))
    sweep_interval: float | None = attrs.field(default=60, validator=_between(0.05, 86_400, optional=True))
    dispatch_batch_size: int = attrs.field(default=64, validator=_count(1, 500))
    worker_queue_max_depth: int = attrs.field(default=64, validator=_count(1, 100_000))
    dispatcher_threads: int = attrs.field(default=1, validator=_count(1, 64))
    payload_type: Any = None
    validate_on_enqueue: bool = attrs.field(default=False, validator=attrs.validators.instance_of(bool))
    max_payload_bytes: int = attrs.field(default=262_144, validator=_count(1, 64 * 2**20))
    dedupe_window: float = attrs.field(default=0, validator=_between(0, 2_592_000))

    def __attrs_post_init__(self) -> None:
        """Check what takes two options to go wrong."""
        if self.heartbeat_interval is not None and seconds("", self.heartbeat_interval) >= self.timeout:
            msg = (
                f"heartbeat_interval={self.heartbeat_interval!r} must be shorter than "
                f"visibility_timeout={self.visibility_timeout!r}: a lease would run out between two beats"
            )
            raise ConfigurationError(msg)

    @property
    def timeout(self) -> float:
        """The visibility timeout in seconds."""
        return seconds("visibility_timeout", self.visibility_timeout)

    @property
    def beat_every(self) -> float:
        """Seconds between two heartbeats: heartbeat_interval, or a third of the visibility timeout."""
        return self.timeout / 3 if self.heartbeat_interval is None else seconds("heartbeat_interval", self.heartbeat_interval)
