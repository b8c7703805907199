"""Scheduler: policies as values."""

from __future__ import annotations

import math
from typing import Any

import attrs
import pytest

from fairqueue.errors import ConfigurationError, InvalidId
from fairqueue.scheduler import DeficitRoundRobin, Fair, Noop, RoundRobin, Scheduler, Turn, WeightedRandom

ALL = [Fair(), DeficitRoundRobin(), RoundRobin(), WeightedRandom(), Noop()]


def test_names() -> None:
    """Each policy names the Lua piece that carries it out."""
    assert [policy.policy for policy in ALL] == ["fair", "drr", "round_robin", "weighted", "noop"]


def test_defaults() -> None:
    """The defaults are the documented ones."""
    assert attrs.asdict(DeficitRoundRobin()) == {"quantum": 10, "max_deficit": 100}
    expected = {"limit_bias": 0, "capacity_bias": 0, "age_randomization": 0, "seed": None}
    assert expected == attrs.asdict(WeightedRandom())


@pytest.mark.parametrize("policy", ALL)
def test_values(policy: Any) -> None:
    """Policies are frozen, compare by value, and are no custom schedulers."""
    assert policy == type(policy)()
    assert len({policy, type(policy)()}) == 1
    assert not isinstance(policy, Scheduler)


@pytest.mark.parametrize(
    "make",
    [
        lambda: DeficitRoundRobin(quantum=0),
        lambda: DeficitRoundRobin(quantum=1.5),  # type: ignore[arg-type]
        lambda: DeficitRoundRobin(quantum=True),
        lambda: DeficitRoundRobin(quantum=10, max_deficit=9),
        lambda: WeightedRandom(limit_bias=-0.1),
        lambda: WeightedRandom(capacity_bias=1.1),
        lambda: WeightedRandom(age_randomization=math.nan),
        lambda: WeightedRandom(limit_bias=True),
        lambda: WeightedRandom(seed=-1),
        lambda: WeightedRandom(seed=0.5),  # type: ignore[arg-type]
        lambda: Turn("t", "q", 0),
        lambda: Turn("t", "q", 501),
    ],
)
def test_refused(make) -> None:
    """Values out of range are refused at birth."""
    with pytest.raises(ConfigurationError):
        make()


def test_turn() -> None:
    """A turn names a queue by the pair."""
    assert Turn(tenant_id="a:b", queue_id="q", limit=1) == Turn("a:b", "q")
    with pytest.raises(InvalidId, match="tenant_id"):
        Turn("", "q")
    with pytest.raises(InvalidId, match="queue_id"):
        Turn("t", None)  # type: ignore[arg-type]


def test_protocol() -> None:
    """A custom scheduler is whatever has select(view)."""

    class Mine:
        def select(self, _view: object, /) -> list[Turn]:
            return [Turn("t", "q")]

    assert isinstance(Mine(), Scheduler)
