"""Retry: the policies (retry-1 to retry-16 of the ported suite), and the decision."""

from __future__ import annotations

import math
from datetime import timedelta

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairqueue.errors import ConfigurationError, LeaseExpired
from fairqueue.retry import (
    FALLBACK_DELAY,
    Again,
    CustomRetry,
    Dead,
    ExponentialBackoff,
    FixedDelay,
    ImmediateRetry,
    LinearBackoff,
    NoRetry,
    RetryPolicy,
    decide,
    on_expiry,
)

ALL = [
    ExponentialBackoff(),
    FixedDelay(5, 0.5),
    LinearBackoff(5, 0.1),
    ImmediateRetry(5),
    NoRetry(),
    CustomRetry(5, lambda attempt, error: 1),
]


def test_exponential_rises() -> None:
    """retry-1: without jitter the delays rise strictly."""
    policy = ExponentialBackoff(jitter=False)

    assert [policy.next_delay(n) for n in range(1, 5)] == [1, 2, 4, 8]


def test_exponential_ends() -> None:
    """retry-2: three attempts are two delays and an end."""
    policy = ExponentialBackoff(max_attempts=3)

    assert [policy.next_delay(n) is not None for n in (1, 2, 3)] == [True, True, False]


@pytest.mark.parametrize("policy", [attrs.evolve(p, max_attempts=7) for p in ALL if not isinstance(p, NoRetry)])
def test_max_attempts_is_readable(policy: ExponentialBackoff) -> None:
    """retry-3: each policy says how many attempts it allows, and allows no more."""
    assert policy.max_attempts == 7
    assert [policy.next_delay(n) is not None or None for n in (6, 7, 8)] == [True, None, None]


def test_exponential_defaults() -> None:
    """The defaults are the ported ones."""
    expected = {"max_attempts": 12, "min_delay": 1, "max_delay": 3600, "factor": 2, "jitter": True}

    assert expected == attrs.asdict(ExponentialBackoff())


@given(
    st.integers(0, 2500),
    st.floats(0, 100),
    st.floats(100, 31_536_000),
    st.floats(1, 1000),
    st.booleans(),
)
def test_exponential_is_bounded(attempt: int, low: float, high: float, factor: float, jitter: bool) -> None:
    """Any attempt's delay is finite, never negative and never above max_delay, jitter included."""
    policy = ExponentialBackoff(max_attempts=3000, min_delay=low, max_delay=high, factor=factor, jitter=jitter)

    delay = policy.next_delay(attempt)

    assert delay is not None
    assert 0 <= delay <= high


def test_two_thousand_delays() -> None:
    """Base 1 s, factor 10, cap 5 s, jitter: 2,000 delays from 1 to 5 s and no exception."""
    policy = ExponentialBackoff(max_attempts=2001, min_delay=1, max_delay=5, factor=10)

    assert all(1 <= (policy.next_delay(n) or math.nan) <= 5 for n in range(1, 2001))


def test_jitter_spreads() -> None:
    """Jitter is the ported one: times 1 to 2."""
    delays = [ExponentialBackoff().next_delay(2) or 0 for _ in range(500)]

    assert 2 <= min(delays) < 2.2
    assert 3.8 < max(delays) <= 4


@pytest.mark.parametrize("low", [0, timedelta(0)])
def test_exponential_from_zero(low: float) -> None:
    """A zero stays zero, however far it is raised."""
    assert ExponentialBackoff(max_attempts=5000, min_delay=low, factor=1000).next_delay(4000) == 0


def test_fixed() -> None:
    """retry-4, retry-5: the same delay each time, then none."""
    assert [FixedDelay(5, 0.5).next_delay(n) for n in range(1, 6)] == [0.5, 0.5, 0.5, 0.5, None]
    assert FixedDelay(3, 0.5).next_delay(3) is None


def test_linear() -> None:
    """retry-6, retry-8: delay times attempt, then none."""
    assert [LinearBackoff(5, 100).next_delay(n) for n in range(1, 6)] == [100, 200, 300, 400, None]


def test_linear_cap() -> None:
    """retry-7: never above the cap."""
    policy = LinearBackoff(max_attempts=9, delay=100, max_delay=timedelta(seconds=250))

    assert [policy.next_delay(n) for n in (1, 2, 3, 8)] == [100, 200, 250, 250]


def test_no_retry() -> None:
    """retry-9, retry-10: one attempt."""
    assert [NoRetry().next_delay(1), NoRetry().next_delay(0), NoRetry().max_attempts] == [None, None, 1]


def test_immediate() -> None:
    """retry-11, retry-12: at once, then none."""
    assert [ImmediateRetry(5).next_delay(n) for n in (1, 2, 4, 5)] == [0, 0, 0, None]


def test_custom_value() -> None:
    """retry-13: the function's value is used; a timedelta is one."""
    assert [CustomRetry(5, lambda n, _: 100 * n * n).next_delay(n) for n in (1, 2)] == [100, 400]
    assert CustomRetry(5, lambda n, _: timedelta(minutes=n)).next_delay(2) == 120


def test_custom_error() -> None:
    """retry-14: the function is given the same error object, once."""
    seen: list[object] = []
    error = RuntimeError()

    CustomRetry(5, lambda _, error: seen.append(error)).next_delay(1, error)

    assert [error] == seen


def test_custom_end() -> None:
    """retry-15, retry-16: none at the maximum whatever it says; none early when it says so."""
    assert CustomRetry(3, lambda _n, _e: 1).next_delay(3) is None
    assert CustomRetry(3, lambda _n, _e: None).next_delay(1) is None


@pytest.mark.parametrize("policy", ALL)
def test_values(policy: RetryPolicy) -> None:
    """Policies are frozen values that say what they are."""
    assert isinstance(policy, RetryPolicy)
    assert attrs.evolve(policy) == policy  # type: ignore[type-var]
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        policy.max_attempts = 3  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "make",
    [
        lambda: ExponentialBackoff(max_attempts=0),
        lambda: ExponentialBackoff(max_attempts=True),
        lambda: ExponentialBackoff(max_attempts=2.0),  # type: ignore[arg-type]
        lambda: ExponentialBackoff(factor=0.5),
        lambda: ExponentialBackoff(factor=math.nan),
        lambda: ExponentialBackoff(min_delay=-1),
        lambda: ExponentialBackoff(max_delay=math.inf),
        lambda: ExponentialBackoff(min_delay=10, max_delay=5),
        lambda: ExponentialBackoff(jitter=1),  # type: ignore[arg-type]
        lambda: FixedDelay(3, math.nan),
        lambda: FixedDelay(3, "1"),  # type: ignore[arg-type]
        lambda: LinearBackoff(3, True),
        lambda: LinearBackoff(3, 1, -1),
        lambda: ImmediateRetry(0),
        lambda: CustomRetry(3, 5),  # type: ignore[arg-type]
        lambda: CustomRetry(0, lambda _n, _e: 1),
    ],
)
def test_refused(make) -> None:
    """A policy that makes no sense is refused at birth."""
    with pytest.raises(ConfigurationError):
        make()


def verdict(
    policy: RetryPolicy | None, *, attempt: int = 1, deliveries: int = 1, most: int | None = 20
) -> Again | Dead:
    return decide(policy, attempt=attempt, deliveries=deliveries, max_deliveries=most, error=RuntimeError("x"))


@pytest.mark.parametrize(
    ("policy", "case", "expected"),
    [
        (FixedDelay(3, 2), {"attempt": 2}, Again(2.0)),
        (FixedDelay(3, 2), {"attempt": 3}, Dead("exhausted")),
        (CustomRetry(9, lambda _n, _e: None), {}, Dead("not retryable")),
        (None, {}, Dead("no retry policy")),
        (FixedDelay(30, 2), {"attempt": 2, "deliveries": 20}, Dead("delivery limit of 20 reached")),
        (FixedDelay(30, 2), {"attempt": 2, "deliveries": 99, "most": None}, Again(2.0)),
        (CustomRetry(30, lambda _n, _e: timedelta(seconds=3)), {}, Again(3.0)),
    ],
)
def test_decide(policy: RetryPolicy | None, case: dict[str, int], expected: Again | Dead) -> None:
    """A failed delivery is tried again until its policy or the delivery limit ends it, and the reason says which."""
    assert expected == verdict(policy, **case)


class Weird:
    """A policy of somebody else's that answers *answer*, or raises it."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def next_delay(self, _attempt: int, _error: BaseException | None = None, /) -> float | None:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer  # type: ignore[return-value]


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize("answer", [math.nan, math.inf, -1, "5", True, [], 1e12, RuntimeError("boom"), Mute()])
def test_nonsense(answer: object) -> None:
    """A policy that raises or answers nonsense costs an attempt and a second, is reported, and still ends."""
    policy = Weird(answer)

    again = verdict(policy)

    assert isinstance(again, Again)
    assert again.delay == FALLBACK_DELAY
    assert again.trouble
    assert isinstance(verdict(policy, deliveries=20), Dead)
    assert isinstance(on_expiry(policy, attempt=1, deliveries=20, max_deliveries=20), Dead)


def test_nonsense_ends_without_a_delivery_limit() -> None:
    """Attempts are stored in 16 bits: no policy goes on past that."""
    assert verdict(Weird(0), attempt=60_000, most=None) == Dead("exhausted")


@pytest.mark.parametrize("number", [None, "x"])
def test_a_policy_without_max_attempts(number: object) -> None:
    """A policy of somebody else's needs next_delay only."""
    policy = Weird(None)
    if number is not None:
        policy.max_attempts = number  # type: ignore[attr-defined]

    assert isinstance(verdict(policy), Dead if number is None else Again)


@pytest.mark.parametrize(
    ("policy", "attempt", "deliveries", "most", "expected"),
    [
        (None, 1, 1, 20, Again(0.0)),
        (None, 9, 9, None, Again(0.0)),
        (None, 3, 3, 3, Dead("worker lost: delivery limit of 3 reached")),
        (FixedDelay(3, 60), 1, 1, 20, Again(0.0)),
        (FixedDelay(3, 60), 3, 3, 20, Dead("worker lost: exhausted")),
        (FixedDelay(9, 60), 3, 3, 3, Dead("worker lost: delivery limit of 3 reached")),
        (NoRetry(), 1, 1, 20, Dead("worker lost: exhausted")),
        (Weird(RuntimeError("boom")), 1, 1, 20, Again(0.0, "RuntimeError: boom")),
    ],
)
def test_expiry(policy, attempt: int, deliveries: int, most: int | None, expected: Again | Dead) -> None:
    """A lost worker's message goes back without backoff; its death says that the worker was lost."""
    assert expected == on_expiry(policy, attempt=attempt, deliveries=deliveries, max_deliveries=most)


def test_expiry_error() -> None:
    """The policy sees a LeaseExpired."""
    seen: list[object] = []

    on_expiry(CustomRetry(5, lambda _, error: seen.append(error)), attempt=1, deliveries=1, max_deliveries=None)

    assert [LeaseExpired] == [type(error) for error in seen]
