"""Policies that decide whose message is next, as values; each names the Lua piece that carries it out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import attrs

from fairqueue.durations import or_none, ratio, whole, within
from fairqueue.errors import ConfigurationError
from fairqueue.ids import check_id

if TYPE_CHECKING:
    from collections.abc import Iterable

_share = within(ratio, 0, 1)


@attrs.frozen
class Fair:
    """Equal turns by weight: self-clocked fair queueing with an express lane for tenants at or under their share."""

    policy: ClassVar[str] = "fair"


@attrs.frozen
class DeficitRoundRobin:
    """Tenants in turn; each visit credits *quantum* messages, saved up to *max_deficit*, forfeited when idle.

    Raises:
        ConfigurationError: not whole numbers from 1 to 1,000,000, or *max_deficit* is less than *quantum*.
    """

    policy: ClassVar[str] = "drr"
    quantum: int = attrs.field(default=10, validator=within(whole, 1, 1_000_000))
    max_deficit: int = attrs.field(default=100, validator=within(whole, 1, 1_000_000))

    def __attrs_post_init__(self) -> None:
        """Check what takes two values to go wrong."""
        if self.max_deficit < self.quantum:
            raise ConfigurationError(
                f"max_deficit={self.max_deficit} must not be less than quantum={self.quantum}: its credit would be lost"
            )


@attrs.frozen
class RoundRobin:
    """The tenant that was served longest ago."""

    policy: ClassVar[str] = "round_robin"


@attrs.frozen(kw_only=True)
class WeightedRandom:
    """A tenant by chance. Isolates only loosely: prefer `Fair`.

    Args:
        limit_bias: 0 to 1, favours tenants with a high limit.
        capacity_bias: 0 to 1, favours tenants with much of their limit free.
        age_randomization: queues of a tenant by age (0) to at random (1).
        seed: makes the draws repeatable, 0 to 2**32 - 1; None: a new one for each process.

    Raises:
        ConfigurationError: a value is out of range.
    """

    policy: ClassVar[str] = "weighted"
    limit_bias: float = attrs.field(default=0, validator=_share)
    capacity_bias: float = attrs.field(default=0, validator=_share)
    age_randomization: float = attrs.field(default=0, validator=_share)
    seed: int | None = attrs.field(default=None, validator=or_none(within(whole, 0, 2**32 - 1)))


@attrs.frozen
class Noop:
    """Dispatches nothing."""

    policy: ClassVar[str] = "noop"


@attrs.frozen
class Turn:
    """One entry of a custom policy's plan: up to *limit* messages of this queue, in its order.

    Raises:
        InvalidId: a name is not an id.
        ConfigurationError: *limit* is not a whole number from 1 to 500.
    """

    tenant_id: str = attrs.field()
    queue_id: str = attrs.field()
    limit: int = attrs.field(default=1, validator=within(whole, 1, 500))

    @tenant_id.validator
    @queue_id.validator
    def _is_id(self, field: attrs.Attribute[str], value: object) -> None:
        check_id(field.name, value)


@runtime_checkable
class Scheduler(Protocol):
    """A policy of your own; runs in the dispatcher's thread, one call a shard and worker queue at a time."""

    def select(self, view: Any, /) -> Iterable[Turn]:
        """Plan the next turns from what the *view* shows; each is checked like any other dispatch."""


Policy = Fair | DeficitRoundRobin | RoundRobin | WeightedRandom | Noop
