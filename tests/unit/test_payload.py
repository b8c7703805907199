"""Payloads: what comes back is what went in, or nothing is accepted."""

from __future__ import annotations

import enum
import json
import math
import threading
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, TypedDict
from uuid import UUID, uuid4

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairqueue.errors import ConfigurationError, PayloadError, PayloadTooLarge
from fairqueue.payload import Codec

CANARY = "canary-7f3a"
PLAIN = Codec()
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def same(one: Any, other: Any) -> bool:
    """Equal, and of the same types all the way down; -0.0 is not 0.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return one.hex() == other.hex()
    return bool(one == other)


EXACT = [
    2**53 + 1,
    2**63,
    -(2**63),
    2**64,
    2**64 - 1,
    -(2**63) - 1,
    10**30,
    0.1,
    1e308,
    5e-324,
    -0.0,
    1.0,
    [],
    {},
    [[], {}],
    None,
    "",
    "\u0000",
    True,
    False,
    1,
    {".": 1, "": 2, "a.b": {"": None}},
    "naïve-雪-😀",
    [1, True, 1.0],
]


@pytest.mark.parametrize("value", EXACT, ids=repr)
def test_exact(value: object) -> None:
    """A plain value comes back equal and of the same type, alone and inside others."""
    codec = Codec()

    for payload in (value, [value], {"a": [{"b": value}]}):
        assert same(payload, codec.decode(codec.encode(payload)))


@pytest.mark.parametrize("value", [10**4299, 10**4300 - 1, -(10**4299) + 1], ids=["4300", "nines", "negative"])
def test_wide_integers(value: int) -> None:
    """Integers come back whole up to 4,300 digits."""
    assert value == PLAIN.decode(PLAIN.encode({"n": value}))["n"]


@pytest.mark.parametrize("value", [10**4300, -(10**4299), 10**5000], ids=["4301", "negative", "5001"])
def test_too_wide_integers(value: int) -> None:
    """Wider ones are refused where they are sent, not at the worker."""
    with pytest.raises(PayloadError, match=r"payload\.n: an integer of more than 4300 digits"):
        PLAIN.encode({"n": value})


def test_a_producer_without_the_digit_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process whose own digit limit is off sends nothing that others cannot read."""
    monkeypatch.setattr("fairqueue.payload._encode", lambda _: b"[" + b"9" * 4301 + b"]")

    with pytest.raises(PayloadError, match="4300 digits"):
        PLAIN.encode([10**4301 - 1])


def test_long_text_of_digits() -> None:
    """Digits in a text are no number."""
    text = "9" * 5000

    assert text == PLAIN.decode(PLAIN.encode(text))


@given(VALUES)
def test_round_trip(value: object) -> None:
    """Any plain value comes back the same."""
    assert same(value, PLAIN.decode(PLAIN.encode(value)))


@given(VALUES)
def test_it_is_json(value: object) -> None:
    """What is stored is JSON that others can read."""
    assert same(value, json.loads(PLAIN.encode(value)))


def test_tuples() -> None:
    """Tuples come back as lists: the one thing that changes."""
    assert PLAIN.decode(PLAIN.encode({"a": (1, (2,))})) == {"a": [1, [2]]}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: [v], lambda v: {"a": {"b": (1, v)}}])
def test_not_a_number(value: float, wrap: Any) -> None:
    """NaN and infinity are refused; they never become null."""
    with pytest.raises(PayloadError, match="NaN and infinity"):
        PLAIN.encode(wrap(value))


@pytest.mark.parametrize("levels", [1, 200, 512])
def test_depth(levels: int) -> None:
    """512 levels are fine."""
    assert deep(levels) == PLAIN.decode(PLAIN.encode(deep(levels)))


@pytest.mark.parametrize("levels", [513, 900, 50_000])
def test_too_deep(levels: int) -> None:
    """Deeper ones are refused."""
    with pytest.raises(PayloadError, match="nested deeper than 512"):
        PLAIN.encode(deep(levels))


def test_itself_inside_itself() -> None:
    """A value that holds itself is refused, whether once or twice."""
    once: list[Any] = []
    once.append(once)
    twice: list[Any] = []
    twice += [twice, {"a": twice}]

    for value in (once, twice):
        with pytest.raises(PayloadError):
            PLAIN.encode(value)


def test_a_bomb_of_references() -> None:
    """A small value that would be huge as JSON is refused before it is built."""
    bomb: list[Any] = []
    for _ in range(60):
        bomb = [bomb, bomb]

    with pytest.raises(PayloadTooLarge, match="at least"):
        PLAIN.encode(bomb)


@pytest.mark.parametrize("value", ["\ud800", ["a\udfff"], {"a": "\ud83d"}, {"\ud800": 1}])
def test_lone_surrogates(value: object) -> None:
    """Text that is not UTF-8 is refused."""
    with pytest.raises(PayloadError, match="surrogate"):
        PLAIN.encode(value)


@pytest.mark.parametrize("key", [1, True, None, 1.5, b"a", (1,)])
def test_keys(key: object) -> None:
    """Keys that would come back as str are refused."""
    with pytest.raises(PayloadError, match=rf"a key of payload\.a: of type {type(key).__name__}"):
        PLAIN.encode({"a": {key: 1}})


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 1


class Name(enum.StrEnum):
    A = "a"


@attrs.frozen
class Order:
    number: int = attrs.field(validator=attrs.validators.ge(0))
    price: Any = 1.5
    at: datetime | None = None
    tags: set[str] = attrs.field(factory=set)


@dataclass
class Item:
    id: UUID
    raw: bytes
    amount: Decimal
    colour: Colour
    day: date
    pair: tuple[int, str]
    by_number: dict[int, float]


class Point(msgspec.Struct):
    x: float
    y: float | None = None


class Address(TypedDict):
    city: str
    zip: str


Pair = namedtuple("Pair", "a b")  # noqa: PYI024 - what users have
OTHERS: list[Any] = [
    b"x",
    bytearray(b"x"),
    datetime.now(UTC),
    date(2026, 1, 1),
    Decimal("1.1"),
    {1},
    frozenset("a"),
    uuid4(),
    Colour.RED,
    Level.HIGH,
    Name.A,
    Order(1),
    Point(1.0),
    Pair(1, 2),
    OrderedDict(a=1),
    object(),
    1j,
    range(3),
    iter([1]),
    ValueError("x"),
    test_keys,
    Order,
]


@pytest.mark.parametrize("value", OTHERS, ids=lambda v: type(v).__name__)
@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: {"a": [v]}])
def test_other_types(value: object, wrap: Any) -> None:
    """What would come back as another type is refused by name, with the way out."""
    with pytest.raises(PayloadError, match=rf"a value of type {type(value).__name__} .* set payload_type"):
        PLAIN.encode(wrap(value))


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (1j, "payload"),
        ({"items": [0, {"price": 1j}]}, "payload.items[1].price"),
        ({"a b": 1j}, "payload[...]"),
        ({"x" * 50: [1j]}, "payload[...][0]"),
    ],
)
def test_path(value: object, path: str) -> None:
    """An error says where; keys that are no plain names are not shown."""
    with pytest.raises(PayloadError) as caught:
        PLAIN.encode(value)

    assert path == caught.value.path
    assert str(caught.value).startswith(f"{path}: ")


def test_path_of_something_deep() -> None:
    """The path stays short."""
    value: Any = 1j
    for _ in range(300):
        value = {"abcdefgh": value}

    with pytest.raises(PayloadError) as caught:
        PLAIN.encode(value, "payload of message 'm'")

    assert str(caught.value).startswith("payload of message 'm'.abcdefgh.")
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("size", [98, 99, 1000])
def test_size(size: int) -> None:
    """The cap counts encoded bytes; the error tells both numbers."""
    codec = Codec(max_bytes=100)
    if size == 98:
        assert len(codec.encode("x" * size)) == 100
        return
    with pytest.raises(PayloadTooLarge, match=r"max_payload_bytes=100: store it elsewhere") as caught:
        codec.encode("x" * size)

    assert (size + 2, 100) == (caught.value.size, caught.value.limit)


def test_too_many_values() -> None:
    """A value of more parts than bytes are allowed is refused without encoding it."""
    with pytest.raises(PayloadTooLarge) as caught:
        Codec(max_bytes=100).encode([0] * 1000)

    assert caught.value.size > caught.value.limit == 100


ITEM = Item(uuid4(), b"\0\xff", Decimal("1.10"), Colour.RED, date(2026, 1, 1), (1, "a"), {1: 2.5})
TYPED: list[tuple[Any, Any]] = [
    (Order, Order(10**30, at=datetime(2026, 1, 1, tzinfo=UTC), tags={"a"})),
    (Item, ITEM),
    (Point, Point(0.1, -0.0)),
    (Address, {"city": "Łódź", "zip": "90-001"}),
    (list[Order], [Order(1), Order(2)]),
    (Order | None, None),
    (datetime, datetime(2026, 1, 1, 12, 0, 0, 1, tzinfo=UTC)),
    (bytes, b"\0\xff"),
]


@pytest.mark.parametrize("validate", [False, True])
@pytest.mark.parametrize(("kind", "value"), TYPED, ids=lambda v: getattr(v, "__name__", ""))
def test_typed(kind: Any, value: Any, validate: bool) -> None:
    """With a payload type a value comes back as that type, exactly."""
    codec = Codec(kind, validate)

    again = codec.decode(codec.encode(value))

    assert value == again
    assert type(value) is type(again)


def test_typed_from_plain_values() -> None:
    """Plain values of the right shape may be sent for a class."""
    codec = Codec(Order, validate_on_enqueue=True)

    assert Order(3) == codec.decode(codec.encode({"number": 3}))


@pytest.mark.parametrize(
    "value",
    [Order(1, price=math.nan), {"number": 1, "price": math.inf}, Order(1, price=deep(600)), Order(1, price="\ud800")],
    ids=["nan", "inf", "deep", "surrogate"],
)
def test_typed_but_not_json(value: object) -> None:
    """A payload type does not let through what JSON would change."""
    with pytest.raises(PayloadError):
        Codec(Order).encode(value)


def test_typed_but_of_no_known_type() -> None:
    """What no codec can carry is refused by its type's name."""
    with pytest.raises(PayloadError, match="objects of type complex"):
        Codec(Order).encode(Order(1, price=1j))


def test_typed_size() -> None:
    """The cap holds for typed payloads."""
    with pytest.raises(PayloadTooLarge):
        Codec(Order, max_bytes=20).encode(Order(1))


def test_typed_without_validation() -> None:
    """Without validate_on_enqueue a wrong value is found where it is read."""
    codec = Codec(Order)
    raw = codec.encode({"number": "one"})

    with pytest.raises(PayloadError, match="no Order"):
        codec.decode(raw)


@attrs.frozen
class Moody:
    text: str

    def __attrs_post_init__(self) -> None:
        raise KeyError(self.text)


@attrs.frozen
class Strict:
    colour: Colour = Colour.RED
    number: int = 0
    moody: Moody | None = None
    mail: str = attrs.field(default="", validator=attrs.validators.max_len(3))
    by_number: dict[int, Any] = attrs.field(factory=dict)


WRONG: list[Any] = [
    {"number": CANARY},
    {"colour": CANARY},
    {"moody": {"text": CANARY}},
    {"mail": CANARY},
    {"by_number": {CANARY: 1}},
    [CANARY],
    {"by_number": {"1": {CANARY: math.nan}}},
]


@pytest.mark.parametrize("value", WRONG, ids=repr)
def test_validation(value: object) -> None:
    """A wrong value is refused at enqueue; no text or cause of the error shows what is in it."""
    with pytest.raises(PayloadError) as caught:
        Codec(Strict, validate_on_enqueue=True).encode(value)

    assert_no_canary(caught.value)


def test_validation_says_where() -> None:
    """The error names the place and the types."""
    with pytest.raises(PayloadError, match=r"^payload: .* no Order: Expected `int`, got `str` at \$\.number$"):
        Codec(Order, validate_on_enqueue=True).encode({"number": "x"})
    with pytest.raises(PayloadError, match=r"missing required field `number`"):
        Codec(Order, validate_on_enqueue=True).encode({})


SECRETS: list[Any] = [
    {CANARY: 1j},
    [CANARY, 1j],
    {"a": CANARY + "\ud800"},
    {"a": CANARY, "b": math.nan},
    CANARY * 10,
    {"a": ValueError(CANARY)},
    {CANARY + "\ud800": 1},
]


@pytest.mark.parametrize("value", SECRETS, ids=ascii)
def test_secrets(value: object) -> None:
    """No refusal shows content, not even in the exceptions behind it."""
    with pytest.raises(PayloadError) as caught:
        Codec(max_bytes=100).encode(value)

    assert_no_canary(caught.value)


def assert_no_canary(error: BaseException | None) -> None:
    while error is not None:
        assert CANARY not in f"{error!r} {error.args!r} {vars(error)!r}"
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize(
    "raw", [b"", b"{", b'"\xff"', b"nul", b'{"a":1}x', b"NaN", b"\0", CANARY.encode(), b"[" * 100_000]
)
def test_unreadable(raw: bytes) -> None:
    """Bytes that are no payload raise PayloadError, whatever they are, and are not shown."""
    with pytest.raises(PayloadError, match="no JSON") as caught:
        PLAIN.decode(raw)

    assert_no_canary(caught.value)


@pytest.mark.parametrize("kind", [object(), "Order", 5, object, threading.Thread, Order | Point])
def test_payload_types_refused(kind: Any) -> None:
    """A type that cannot be read back is refused at birth."""
    with pytest.raises(ConfigurationError, match="^payload_type="):
        Codec(kind)


class Model:
    """The part of a pydantic model that we use."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and self.fields == other.fields

    __hash__ = None  # type: ignore[assignment]

    def model_dump_json(self, *, by_alias: bool = False, round_trip: bool = False) -> str:
        assert by_alias
        assert round_trip
        return msgspec.json.encode({k: v for k, v in self.fields.items() if k != "private"}).decode()

    @classmethod
    def model_validate_json(cls, raw: bytes) -> Model:
        fields = msgspec.json.decode(raw)
        if "bad" in fields:
            raise ValueError(fields)
        return cls(**fields)


class Bare:
    """The same without keywords and without equality."""

    def __init__(self, x: object) -> None:
        self.x = x

    def model_dump_json(self) -> str:
        return json.dumps(self.x)

    @classmethod
    def model_validate_json(cls, raw: bytes) -> Bare:
        return cls(json.loads(raw))


def test_model() -> None:
    """A pydantic model comes back as one, also from plain values."""
    codec = Codec(Model, validate_on_enqueue=True)

    assert Model(a=1, b=[None]) == codec.decode(codec.encode(Model(a=1, b=[None])))
    assert Model(a=1) == codec.decode(codec.encode({"a": 1}))
    assert Codec(Bare).decode(Codec(Bare).encode(Bare([1]))).x == [1]


@pytest.mark.parametrize(
    "fields", [{"a": math.nan}, {"private": CANARY}, {"bad": CANARY}, {"a": "\ud800"}, {"a": 1j}], ids=repr
)
def test_model_that_comes_back_different(fields: dict[str, Any]) -> None:
    """A model that would not come back equal is refused, without its content."""
    with pytest.raises(PayloadError, match="of type Model cannot be stored") as caught:
        Codec(Model).encode(Model(**fields))

    assert_no_canary(caught.value)


def test_model_size_and_validation() -> None:
    """The cap and the check hold for models."""
    with pytest.raises(PayloadTooLarge):
        Codec(Model, max_bytes=10).encode(Model(a="x" * 20))
    with pytest.raises(PayloadError, match="no Model: ValueError"):
        Codec(Model, validate_on_enqueue=True).encode({"bad": 1})


def test_model_without_payload_type() -> None:
    """A model needs a payload type: else it would come back as a dict."""
    with pytest.raises(PayloadError, match="set payload_type"):
        PLAIN.encode(Model(a=1))


def test_threads() -> None:
    """One codec serves many threads."""
    codec = Codec(Order)
    wrong: list[object] = []

    def work(number: int) -> None:
        for i in range(500):
            order = Order(number * 1000 + i, price="x" * (i % 50))
            if codec.decode(codec.encode(order)) != order:
                wrong.append(order)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []
