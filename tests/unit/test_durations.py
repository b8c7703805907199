"""Durations: numbers and times as users give them."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairqueue.durations import as_seconds_or_none, at_ms, due, limit, ratio, seconds, to_ms, weight, whole
from fairqueue.errors import ConfigurationError, InvalidArgument

NO_NUMBERS = [True, False, None, "5", b"5", Decimal(5), 5j, [5], datetime.now(UTC)]
NAN = float("nan")
INF = float("inf")


@pytest.mark.parametrize(
    ("value", "expected"), [(0, 0.0), (1.5, 1.5), (timedelta(minutes=2), 120.0), (365 * 86400, 31_536_000.0)]
)
def test_seconds(value: object, expected: float) -> None:
    """A duration is a number of seconds or a timedelta."""
    found = seconds("delay", value)

    assert (expected, float) == (found, type(found))


@pytest.mark.parametrize("value", [*NO_NUMBERS, NAN, INF, -INF, -5, -0.001, 365 * 86400 + 1, 10**400, timedelta(-1)])
def test_seconds_refused(value: object) -> None:
    """What is no duration in range is refused, with its name."""
    with pytest.raises(InvalidArgument, match="^delay="):
        seconds("delay", value)


def test_the_kind_of_error_is_the_callers() -> None:
    """An option raises ConfigurationError, an argument InvalidArgument."""
    with pytest.raises(ConfigurationError, match="visibility_timeout=-1 is out of range: 0.1 to 9 seconds"):
        seconds("visibility_timeout", -1, minimum=0.1, maximum=9, error=ConfigurationError)


@pytest.mark.parametrize("value", [*NO_NUMBERS, NAN, INF, 1.0, 0, 11, pytest.param(10**5000, id="wide")])
def test_whole_refused(value: object) -> None:
    """A count is an int in range: 1.0 and True are none."""
    with pytest.raises(ConfigurationError, match="^n="):
        whole("n", value, minimum=1, maximum=10)


@pytest.mark.parametrize("value", [*NO_NUMBERS, NAN, INF, -0.1, 1.1, 10**400])
def test_ratio_refused(value: object) -> None:
    """A ratio is a finite number in range."""
    with pytest.raises(ConfigurationError, match="^bias="):
        ratio("bias", value, minimum=0, maximum=1)


@pytest.mark.parametrize("value", [None, 0, 1, 1_000_000])
def test_limit(value: int | None) -> None:
    """None is unlimited, 0 pauses."""
    assert value == limit("limit", value)


@pytest.mark.parametrize("value", [-1, 1_000_001, True, 1.5, "3", INF])
def test_limit_refused(value: object) -> None:
    """Nothing else is a limit."""
    with pytest.raises(InvalidArgument, match="^limit=.*None for no limit"):
        limit("limit", value, error=InvalidArgument)


@pytest.mark.parametrize("value", [0, -1, NAN, INF, True, None, 1e7])
def test_weight_refused(value: object) -> None:
    """A weight is more than 0."""
    with pytest.raises(InvalidArgument, match="^weight="):
        weight("weight", value)


@pytest.mark.parametrize(
    ("value", "expected"), [(0, 0), (0.001, 1), (0.0001, 1), (4.35, 4350), (64.1, 64_100), (1.0005, 1001), (1e-9, 0)]
)
def test_to_ms(value: float, expected: int) -> None:
    """Milliseconds are rounded up, and binary fractions add none."""
    assert expected == to_ms(value)


@given(st.integers(0, 365 * 86_400_000))
def test_to_ms_is_exact(ms: int) -> None:
    """Whole milliseconds survive the way through seconds."""
    assert ms == to_ms(ms / 1000)


def test_as_seconds_or_none() -> None:
    """Options keep seconds."""
    assert [as_seconds_or_none(value) for value in (None, timedelta(seconds=1.5), 2)] == [None, 1.5, 2]


@pytest.mark.parametrize(
    ("delay", "not_before", "expected"),
    [
        (None, None, ""),
        (0, None, ""),
        (1.5, None, "+1500"),
        (timedelta(days=1), None, "+86400000"),
        (None, datetime(2026, 1, 1, tzinfo=UTC), "1767225600000"),
        (None, datetime(2026, 1, 1, 5, 30, tzinfo=timezone(timedelta(hours=5, minutes=30))), "1767225600000"),
        (None, datetime(2026, 1, 1, microsecond=1, tzinfo=UTC), "1767225600001"),
        (None, datetime(1900, 1, 1, tzinfo=UTC), "0"),
        (None, datetime.min.replace(tzinfo=timezone(timedelta(hours=14))), "0"),
        (None, datetime.max.replace(tzinfo=timezone(timedelta(hours=-12))), "253402344000000"),
    ],
)
def test_due(delay: object, not_before: object, expected: str) -> None:
    """A delay counts from the server's now; a time is the same instant in every zone; the past is now."""
    assert expected == due(delay, not_before)


@pytest.mark.parametrize("delay", [-5, NAN, INF, "5", True, 366 * 86400])
def test_delay_refused(delay: object) -> None:
    """A delay that makes no sense is refused."""
    with pytest.raises(InvalidArgument, match="^delay="):
        due(delay, None)


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
def test_naive_times_are_refused_everywhere(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A time without a zone is refused, whatever the host's zone; an aware one means the same everywhere."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        with pytest.raises(InvalidArgument, match="give an aware datetime"):
            at_ms("not_before", datetime(2026, 1, 1))  # noqa: DTZ001 - the point
        assert at_ms("not_before", datetime.fromtimestamp(1_767_225_600).astimezone()) == 1_767_225_600_000
        assert at_ms("not_before", datetime(2026, 7, 1, tzinfo=ZoneInfo("America/New_York"))) == 1_782_878_400_000
    finally:
        monkeypatch.undo()
        time.tzset()
        assert os.environ.get("TZ") != zone


@pytest.mark.parametrize("value", [1_767_225_600, "2026-01-01T00:00:00Z", timedelta(1), datetime(2026, 1, 1).date()])  # noqa: DTZ001
def test_no_time(value: object) -> None:
    """Numbers and texts are no times."""
    with pytest.raises(InvalidArgument, match="an aware datetime is needed"):
        at_ms("not_before", value)


def test_one_of_both() -> None:
    """Delay and not_before exclude each other."""
    with pytest.raises(InvalidArgument, match="give one of them"):
        due(1, datetime.now(UTC))
