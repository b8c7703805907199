"""Options: checked at birth, nothing clamped."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import attrs
import pytest

from fairqueue.errors import ConfigurationError
from fairqueue.options import ConcurrencyGroup, Cooloff, FairQueueOptions
from fairqueue.ratelimit import Decision, RateLimiter
from fairqueue.retry import ExponentialBackoff
from fairqueue.scheduler import Fair, Noop, RoundRobin, Turn


def by_tenant(message: Any) -> str:
    return str(message.tenant_id)


def group(name: str = "tenant", **changed: Any) -> ConcurrencyGroup:
    return ConcurrencyGroup(**{"name": name, "group_id": by_tenant, "default_limit": 5, **changed})


def test_defaults() -> None:
    """The defaults are the documented ones."""
    expected = {
        "namespace": "fairqueue",
        "shard_count": 1,
        "shard_by": None,
        "scheduler": Fair(),
        "concurrency_groups": (),
        "worker_queue": "default",
        "retry": None,
        "dead_letters": True,
        "dead_letter_limit": 100_000,
        "dead_letter_ttl": None,
        "visibility_timeout": 30,
        "heartbeat_interval": None,
        "tenant_order": "oldest",
        "max_deliveries": 20,
        "max_run_time": None,
        "reclaim_interval": 1,
        "sweep_interval": 60,
        "dispatch_batch_size": 64,
        "worker_queue_max_depth": 64,
        "dispatcher_threads": 1,
        "payload_type": None,
        "validate_on_enqueue": False,
        "max_payload_bytes": 262_144,
        "dedupe_window": 0,
        "limit_ttl": 5,
        "rate_limiter": None,
        "allow_eviction": False,
        "cooloff": None,
    }

    assert expected == attrs.asdict(FairQueueOptions(), recurse=False)


def test_keyword_only_and_frozen() -> None:
    """Options are named, and do not change."""
    with pytest.raises(TypeError):
        FairQueueOptions("mail")  # type: ignore[misc]
    with pytest.raises(TypeError):
        FairQueueOptions(visibility_timout=3)  # type: ignore[call-arg]
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        FairQueueOptions().namespace = "mail"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("beat", "expected"), [(None, 10.0), (4, 4.0), (timedelta(seconds=2.5), 2.5), (29.999, 29.999)]
)
def test_beat_every(beat: Any, expected: float) -> None:
    """A beat comes at heartbeat_interval, else after a third of the lease."""
    assert expected == FairQueueOptions(heartbeat_interval=beat).beat_every


def test_timedeltas() -> None:
    """Durations are seconds, as numbers or timedeltas."""
    options = FairQueueOptions(visibility_timeout=timedelta(minutes=1), dedupe_window=timedelta(days=1))

    assert (options.visibility_timeout, options.dedupe_window, options.timeout) == (60, 86_400, 60.0)


class Limiter:
    def acquire(self, _n: int = 1, /) -> Decision:
        return Decision(allowed=True)


class Planner:
    def select(self, _view: object, /) -> list[Turn]:
        return []


@pytest.mark.parametrize(
    "given",
    [
        {"namespace": "mail"},
        {"shard_count": 1024},
        {"shard_by": str},
        {"scheduler": RoundRobin()},
        {"scheduler": Noop()},
        {"scheduler": Planner()},
        {"concurrency_groups": [group(), group("tenant2")]},
        {"worker_queue": "emails ✉"},
        {"worker_queue": by_tenant},
        {"retry": ExponentialBackoff()},
        {"visibility_timeout": 0.1},
        {"visibility_timeout": 43_200},
        {"max_deliveries": None},
        {"max_deliveries": 1},
        {"sweep_interval": None},
        {"payload_type": dict, "validate_on_enqueue": True},
        {"rate_limiter": Limiter()},
        {"cooloff": Cooloff()},
    ],
)
def test_allowed(given: dict[str, Any]) -> None:
    """What makes sense is taken as it is."""
    options = FairQueueOptions(**given)

    for name, value in given.items():
        assert getattr(options, name) == (tuple(value) if isinstance(value, list) else value)


DURATIONS = [
    "visibility_timeout",
    "heartbeat_interval",
    "max_run_time",
    "reclaim_interval",
    "sweep_interval",
    "dedupe_window",
    "limit_ttl",
]
COUNTS = ["shard_count", "max_deliveries", "dispatch_batch_size", "worker_queue_max_depth", "dispatcher_threads"]


@pytest.mark.parametrize("name", DURATIONS)
@pytest.mark.parametrize("value", [-1, math.nan, math.inf, True, "30", timedelta(-1), 10**10])
def test_durations_refused(name: str, value: object) -> None:
    """A duration that makes no sense is refused by name."""
    with pytest.raises(ConfigurationError, match=f"^{name}="):
        FairQueueOptions(**{name: value})


@pytest.mark.parametrize("name", [*COUNTS, "max_payload_bytes"])
@pytest.mark.parametrize("value", [0, -1, 1.0, True, "3", 10**9])
def test_counts_refused(name: str, value: object) -> None:
    """A count that makes no sense is refused by name."""
    with pytest.raises(ConfigurationError, match=f"^{name}="):
        FairQueueOptions(**{name: value})


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"namespace": "a b"}, "1 to 64 characters"),
        ({"namespace": ""}, "1 to 64 characters"),
        ({"shard_count": 1025}, "from 1 to 1,024"),
        ({"shard_by": "tenant"}, "callable"),
        ({"scheduler": "fair"}, "select"),
        ({"scheduler": Fair}, "select"),
        ({"scheduler": None}, "select"),
        ({"concurrency_groups": group()}, "a list of ConcurrencyGroup"),
        ({"concurrency_groups": ["tenant"]}, "holds 'tenant'"),
        ({"concurrency_groups": [group(), group()]}, "two groups have the name 'tenant'"),
        ({"worker_queue": ""}, "worker_queue"),
        ({"worker_queue": None}, "worker_queue"),
        ({"retry": 3}, "next_delay"),
        ({"retry": ExponentialBackoff}, "next_delay"),
        ({"dead_letters": 1}, "True or False"),
        ({"dead_letters": None}, "True or False"),
        ({"dead_letter_limit": 0}, "from 1 to"),
        ({"dead_letter_ttl": 0}, "out of range"),
        ({"visibility_timeout": 0.05}, "out of range"),
        ({"visibility_timeout": None}, "visibility_timeout"),
        ({"heartbeat_interval": 40}, "must be shorter"),
        ({"heartbeat_interval": 30}, "must be shorter"),
        ({"heartbeat_interval": 0}, "out of range"),
        ({"payload_type": object()}, "payload_type"),
        ({"validate_on_enqueue": True}, "needs a payload_type"),
        ({"rate_limiter": 5}, "acquire"),
        ({"cooloff": True}, "Cooloff"),
    ],
)
def test_refused(given: dict[str, Any], why: str) -> None:
    """What makes no sense, alone or together, is refused with its rule."""
    with pytest.raises(ValueError, match=why):
        FairQueueOptions(**given)


@pytest.mark.parametrize("limit", [None, 0, 1, 1_000_000])
def test_group(limit: int | None) -> None:
    """A group has a name, a function and a limit that must be said; no name is special."""
    made = ConcurrencyGroup(name="tenant", group_id=by_tenant, default_limit=limit)

    assert (limit, None) == (made.default_limit, made.limit)


@pytest.mark.parametrize(
    "changed",
    [
        {"name": ""},
        {"name": 3},
        {"group_id": "tenant"},
        {"default_limit": -1},
        {"default_limit": 1_000_001},
        {"default_limit": True},
        {"default_limit": 1.5},
        {"limit": 5},
    ],
)
def test_group_refused(changed: dict[str, Any]) -> None:
    """A group that makes no sense is refused at birth."""
    with pytest.raises(ValueError, match=next(iter(changed))):
        group(**changed)


def test_group_needs_a_default() -> None:
    """Nobody is unlimited by forgetting."""
    with pytest.raises(TypeError, match="default_limit"):
        ConcurrencyGroup(name="tenant", group_id=by_tenant)  # type: ignore[call-arg]


@pytest.mark.parametrize("given", [{"threshold": 0}, {"period": 0}, {"period": math.nan}])
def test_cooloff_refused(given: dict[str, Any]) -> None:
    """A rest needs failures and a length."""
    with pytest.raises(ConfigurationError):
        Cooloff(**given)


def test_rate_limiter() -> None:
    """A limiter is whatever has acquire(n); its decision's time has a zone."""
    assert isinstance(Limiter(), RateLimiter)
    with pytest.raises(ValueError, match="reset_at"):
        Decision(allowed=False, reset_at=5)  # type: ignore[arg-type]
