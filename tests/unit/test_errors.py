"""Errors: one tree, data on attributes, texts that say what to do."""

from __future__ import annotations

import copy
import pickle
from datetime import timedelta

import pytest

from fairqueue import errors
from fairqueue.errors import (
    AccessDenied,
    Bury,
    ConfigurationError,
    FairQueueError,
    InvalidArgument,
    InvalidId,
    LeaseExpired,
    LeaseLost,
    OutcomeUnknown,
    PayloadError,
    PayloadTooLarge,
    QueueFull,
    Retry,
    SchemaMismatch,
    ServerFull,
    StoreError,
    Unavailable,
    UnsupportedServer,
    shown,
)

ALL = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, FairQueueError)]


@pytest.mark.parametrize(
    ("kind", "parents"),
    [
        (InvalidArgument, (FairQueueError, ValueError)),
        (InvalidId, (InvalidArgument, ValueError)),
        (ConfigurationError, (FairQueueError, ValueError)),
        (PayloadError, (FairQueueError, ValueError)),
        (PayloadTooLarge, (PayloadError, ValueError)),
        (QueueFull, (FairQueueError,)),
        (LeaseLost, (FairQueueError,)),
        (LeaseExpired, (FairQueueError,)),
        (Unavailable, (FairQueueError,)),
        (ServerFull, (Unavailable,)),
        (AccessDenied, (Unavailable,)),
        (StoreError, (FairQueueError,)),
        (UnsupportedServer, (ConfigurationError, ValueError)),
        (OutcomeUnknown, (FairQueueError,)),
        (SchemaMismatch, (FairQueueError,)),
    ],
)
def test_tree(kind: type[Exception], parents: tuple[type[Exception], ...]) -> None:
    """One except clause catches a whole branch; a wrong value is a ValueError too."""
    assert all(issubclass(kind, parent) for parent in parents)


@pytest.mark.parametrize("kind", ALL)
def test_text_of_its_own(kind: type[FairQueueError]) -> None:
    """An error without a message says its docstring's first line."""
    assert str(kind()) == (kind.__doc__ or "").partition("\n")[0] != ""


def test_a_subclass_without_docstring_says_what_its_parent_says() -> None:
    """An empty text helps nobody."""

    class Mine(LeaseLost):
        pass

    assert str(Mine()) == str(LeaseLost())


def test_data() -> None:
    """Data are attributes and stand in the text."""
    error = LeaseLost(message_id="m", tenant_id="t\n", queue_id="q")

    assert (error.message_id, error.tenant_id, error.queue_id) == ("m", "t\n", "q")
    assert str(error).endswith("(message_id='m', tenant_id='t\\n', queue_id='q')")


def test_data_that_is_not_given() -> None:
    """What an error was not told is None or empty; what no error has is an AttributeError."""
    assert LeaseLost().message_id is None
    assert OutcomeUnknown().receipts == ()
    with pytest.raises(AttributeError):
        _ = FairQueueError().message_id  # type: ignore[attr-defined]


def test_message_wins() -> None:
    """A message replaces the text; the data stay attributes."""
    error = PayloadTooLarge("too big", size=3, limit=2)

    assert (str(error), error.size, error.limit) == ("too big", 3, 2)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("again", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_pickle(kind: type[FairQueueError], again) -> None:
    """Errors cross process borders whole."""
    error = kind(message_id="m", receipts=(1, 2))
    other = again(error)

    assert type(other) is kind
    assert (str(error), vars(error)) == (str(other), vars(other))


@pytest.mark.parametrize("signal", [Retry(1.5), Retry(timedelta(seconds=2)), Retry(), Bury("bad address")])
def test_signals(signal: Exception) -> None:
    """Retry and Bury are no errors of ours, and cross process borders whole."""
    other = pickle.loads(pickle.dumps(signal))

    assert not isinstance(signal, FairQueueError)
    assert (type(signal), vars(signal)) == (type(other), vars(other))


class Angry:
    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a\x1b[31m\n\ud800é", r"'a\x1b[31m\n\ud800\xe9'"),
        pytest.param(10**5000, "<int>", id="wide"),
        (Angry(), "<Angry>"),
        (["secret"], "<list>"),
        (None, "None"),
        (1.5, "1.5"),
    ],
)
def test_shown(value: object, expected: str) -> None:
    """A value in a text is escaped, and shown only when it is plain."""
    assert expected == shown(value)


def test_shown_is_short() -> None:
    """A megabyte of id does not reach a log."""
    assert len(shown("x" * 10**6)) <= 80
