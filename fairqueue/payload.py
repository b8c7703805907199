"""Payloads: JSON, and exactly the value that went in. Lua never looks inside one, and no error's text shows one.

Without a payload type the value consists of dict (str keys), list, str, int, float, bool and None, and comes
back equal and of the same types; tuples come back as lists. With one it may hold what msgspec or pydantic
can carry (datetime, Decimal, UUID, Enum, bytes, set, attrs and data classes), and comes back as that type.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import attrs
import msgspec

from fairqueue.durations import whole, within, yes_or_no
from fairqueue.errors import ConfigurationError, PayloadError
from fairqueue.plain_json import MAX_DIGITS, is_plain, refusal, too_large

if TYPE_CHECKING:
    from collections.abc import Callable

_LONG_NUMBER = re.compile(rb"[-0-9][0-9]{%d}" % MAX_DIGITS).search
_SAFE_REASON = re.compile(
    r"Expected `[^`]*`|Expected `[^`]*`, got `[^`]*`|Object missing required field `[^`]*`"
).fullmatch
_SAFE_PLACE = re.compile(r"\$[\w.\[\]]*").fullmatch
_encode = msgspec.json.Encoder().encode


def _reader(codec: Codec) -> Callable[[bytes], Any]:
    kind = codec.payload_type
    if kind is None:
        return msgspec.json.Decoder().decode
    if hasattr(kind, "model_validate_json"):
        return kind.model_validate_json  # type: ignore[no-any-return]
    try:
        if not isinstance(msgspec.inspect.type_info(kind), msgspec.inspect.CustomType):
            return msgspec.json.Decoder(kind).decode
        why = "it is no attrs class, dataclass, msgspec.Struct, TypedDict or pydantic model"
    except Exception as error:  # noqa: BLE001 - annotations may raise anything
        why = f"{type(error).__name__}: {error}"
    raise ConfigurationError(f"payload_type={kind!r} cannot be read back from JSON: {why}")


@attrs.frozen
class Codec:
    """Turns payloads into bytes and back; safe to share between threads.

    Args:
        payload_type: an attrs class, dataclass, msgspec.Struct, TypedDict or pydantic model that values come
            back as, or any type of theirs such as ``list[Order]``; None: plain JSON values.
        validate_on_enqueue: check against *payload_type* on the way in too.
        max_bytes: cap on the encoded size.

    Raises:
        ConfigurationError: *payload_type* cannot be read back from JSON.
    """

    payload_type: Any = None
    validate_on_enqueue: bool = attrs.field(default=False, validator=yes_or_no)
    max_bytes: int = attrs.field(default=262_144, validator=within(whole, 1, 64 * 2**20))
    _read: Callable[[bytes], Any] = attrs.field(
        init=False, repr=False, eq=False, default=attrs.Factory(_reader, takes_self=True)
    )

    def encode(self, payload: object, where: str = "payload") -> bytes:
        """Give the bytes to store.

        Args:
            payload: the value.
            where: how errors call it.

        Raises:
            PayloadError: it would not come back equal; the text names the place and the type, never the content.
            PayloadTooLarge: more than max_bytes.
        """
        if self.payload_type is not None:
            return self._encode_typed(payload, where)
        raw = self._encode_plain(payload, where)
        if len(raw) > self.max_bytes:
            raise too_large(where, len(raw), self.max_bytes)
        return raw

    def decode(self, raw: bytes) -> Any:
        """Give the value again.

        Raises:
            PayloadError: these bytes are not a payload, or none of payload_type.
        """
        try:
            return self._read(raw)
        except Exception as error:  # noqa: BLE001 - validators of the user's class may raise anything
            why = _reason(error)
        kind = "JSON" if self.payload_type is None else getattr(self.payload_type, "__name__", "payload_type")
        raise PayloadError(f"the payload is no {kind}: {why}")

    def _encode_plain(self, payload: object, where: str) -> bytes:
        """Encode plain JSON values; what JSON would change on its way is refused."""
        if is_plain(payload, self.max_bytes):
            try:
                raw = _encode(payload)
            except (ValueError, RecursionError, msgspec.MsgspecError):
                raw = b""
            if raw and (
                len(raw) <= MAX_DIGITS or not _LONG_NUMBER(raw) or refusal(payload, where, self.max_bytes) is None
            ):
                return raw
        raise refusal(payload, where, self.max_bytes) or PayloadError(f"{where} cannot be stored as JSON", path=where)

    def _encode_typed(self, payload: Any, where: str) -> bytes:
        if hasattr(payload, "model_dump_json"):
            raw = _dump_model(payload, self._read, where)
        else:
            try:
                plain = msgspec.to_builtins(payload, str_keys=True)
            except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
                why = str(error) if isinstance(error, TypeError) else type(error).__name__
                plain = _Unreadable
            if plain is _Unreadable:
                raise PayloadError(f"{where} cannot be stored as JSON: {why}", path=where)
            raw = self._encode_plain(plain, where)
        if len(raw) > self.max_bytes:
            raise too_large(where, len(raw), self.max_bytes)
        if self.validate_on_enqueue:
            try:
                self.decode(raw)
            except PayloadError as error:
                raise PayloadError(f"{where}: {error}", path=where) from None
        return raw


class _Unreadable:
    """Stands for a value that could not be turned into plain ones."""


def _dump_model(model: Any, read: Callable[[bytes], Any], where: str) -> bytes:
    """JSON of a pydantic model that was read back and compared: NaN, secrets and excluded fields would be lost."""
    try:
        raw: bytes = _model_json(model).encode()
        again = read(raw)
        equals: Any = type(model).__eq__
        same = bool(again == model) if equals is not object.__eq__ else _model_json(again).encode() == raw
        why = "it comes back different (NaN, a secret, an alias, an excluded or private field)"
    except Exception as error:  # noqa: BLE001 - validators of the user's class may raise anything
        same, why = False, _reason(error)
    if not same:
        raise PayloadError(f"{where} of type {type(model).__name__} cannot be stored: {why}", path=where)
    return raw


def _model_json(model: Any) -> str:
    try:
        return str(model.model_dump_json(by_alias=True, round_trip=True))
    except TypeError:
        return str(model.model_dump_json())


def _reason(error: Exception) -> str:
    """Say why bytes could not be read, without what stands in them."""
    if isinstance(error, msgspec.ValidationError):
        reason, _, place = str(error).partition(" - at `")
        reason = reason if _SAFE_REASON(reason) else "a value is not allowed"
        place = place.removesuffix("`")
        return f"{reason} at {place}" if place and _SAFE_PLACE(place) else reason
    if isinstance(error, msgspec.DecodeError):
        return str(error)
    if hasattr(error, "error_count"):
        return f"{type(error).__name__}, {error.error_count()} found"
    return type(error).__name__
