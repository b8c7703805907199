"""Ids: what is one, and its encoding into keys."""

from __future__ import annotations

import enum
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairqueue.errors import ConfigurationError, InvalidId
from fairqueue.ids import check_id, check_namespace, quote, unquote

HOSTILE = [
    "a:b",
    "*",
    "{x}",
    "}{",
    "a b",
    "naïve-雪-😀",
    "../x",
    "%2F",
    "123",
    "a|b",
    "a\tb",
    "\0",
    "~",
    "a/b",
    "%",
    ".",
]
IDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=64)


@pytest.mark.parametrize("value", [*HOSTILE, "x" * 256, "é" * 128])
def test_any_characters(value: str) -> None:
    """Any character may stand in an id, and it comes back unchanged."""
    assert value == check_id("tenant_id", value) == unquote(quote(value))


@pytest.mark.parametrize(
    "value", ["", "x" * 257, "é" * 129, "\ud800", "a\udfffb", b"x", None, 1, True, ["a"], "x" * 10**6]
)
def test_refused(value: object) -> None:
    """What is no id is refused with its kind, the rule and a short form of it."""
    with pytest.raises(InvalidId, match=r"queue_id .* a str of 1 to 256 bytes") as caught:
        check_id("queue_id", value)

    assert caught.value.kind == "queue_id"
    assert len(str(caught.value)) < 250
    assert str(caught.value).isascii()


class Colour(str, enum.Enum):  # noqa: UP042 - StrEnum has another str()
    RED = "red"


class Liar(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "other"

    def __len__(self) -> int:
        return 1

    def encode(self, *_: object) -> bytes:
        return b"x"


@pytest.mark.parametrize(("value", "expected"), [(Colour.RED, "red"), (Liar("é€"), "é€")])
def test_subclasses(value: str, expected: str) -> None:
    """A subclass of str counts by its characters, whatever its methods say, and becomes a plain str."""
    found = check_id("tenant_id", value)

    assert (expected, str) == (found, type(found))


def test_a_subclass_cannot_lie_about_its_length() -> None:
    """The cap holds for subclasses too."""
    with pytest.raises(InvalidId):
        check_id("tenant_id", Liar("é" * 200))


def test_no_normalisation() -> None:
    """Two spellings of one letter are two ids."""
    composed, decomposed = "\u00e9", "e\u0301"

    assert quote(check_id("tenant_id", composed)) != quote(check_id("tenant_id", decomposed))


@given(IDS)
def test_round_trip(value: str) -> None:
    """Unquote undoes quote."""
    assert value == unquote(quote(value))


@given(IDS, IDS)
def test_injective(one: str, other: str) -> None:
    """Two ids never share an encoding."""
    assert (one == other) == (quote(one) == quote(other))


@given(IDS)
def test_alphabet(value: str) -> None:
    """An encoded id shapes no key: only safe characters, escapes in capitals."""
    assert re.fullmatch(r"(?:[A-Za-z0-9_.-]|%[0-9A-F]{2})+", quote(value))


@pytest.mark.parametrize(("value", "expected"), [("a~b", "a%7Eb"), ("{é}", "%7B%C3%A9%7D"), ("a.b_c-D9", "a.b_c-D9")])
def test_pinned(value: str, expected: str) -> None:
    """The encoding is part of the stored schema."""
    assert expected == quote(value)


@pytest.mark.parametrize("value", ["fairqueue", "a", "A.b_c-9", "x" * 64])
def test_namespace(value: str) -> None:
    """A namespace is 1 to 64 safe characters."""
    assert value == check_namespace(value)


@pytest.mark.parametrize("value", ["", "x" * 65, "a b", "a:b", "{a}", "é", "a\n", None, 5, b"a"])
def test_namespace_refused(value: object) -> None:
    """Anything else is refused with the rule."""
    with pytest.raises(ConfigurationError, match="1 to 64 characters"):
        check_namespace(value)
