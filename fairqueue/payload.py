"""Payloads: JSON, and exactly the value that went in. Lua never looks inside one."""

from __future__ import annotations

import math
from typing import Any

import attrs
import msgspec

from fairqueue.errors import PayloadError, PayloadTooLarge

MAX_DEPTH = 512
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_MAX_INT = 2**64 - 1
_MIN_INT = -(2**63)


@attrs.frozen
class Codec:
    """Turns payloads into bytes and back.

    *payload_type*: an attrs class, dataclass, msgspec.Struct, TypedDict or pydantic model that values come
    back as; *validate* checks against it on the way in; *max_bytes* is the cap on the encoded size.
    """

    payload_type: Any = None
    validate: bool = False
    max_bytes: int = 262_144

    def encode(self, payload: object, what: str = "payload") -> bytes:
        """The bytes that are stored.

        Raises:
            PayloadError: it would not come back equal; the text names the path, never the content.
            PayloadTooLarge: more than max_bytes.
        """
        try:
            if hasattr(payload, "model_dump_json"):
                raw = str(payload.model_dump_json()).encode()
            else:
                if self.payload_type is None or type(payload) in _CHECKED:
                    _check(payload, what, 1)
                raw = _encode(payload)
        except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
            if isinstance(error, PayloadError):
                raise
            msg = f"{what} cannot be stored as JSON: {type(payload).__name__} ({type(error).__name__})"
            raise PayloadError(msg) from None
        if len(raw) > self.max_bytes:
            msg = f"{what} is {len(raw)} bytes, more than max_payload_bytes={self.max_bytes}: store it elsewhere and send a reference"
            raise PayloadTooLarge(msg, size=len(raw), limit=self.max_bytes)
        if self.payload_type is not None and self.validate:
            try:
                self.decode(raw)
            except PayloadError as error:
                msg = f"{what} does not fit {getattr(self.payload_type, '__name__', self.payload_type)}: {error}"
                raise PayloadError(msg) from None
        return raw

    def decode(self, raw: bytes) -> Any:
        """The value again.

        Raises:
            PayloadError: these bytes are not a payload (or not one of payload_type).
        """
        try:
            if self.payload_type is None:
                return _decode(raw)
            if hasattr(self.payload_type, "model_validate_json"):
                return self.payload_type.model_validate_json(raw)
            return msgspec.json.decode(raw, type=self.payload_type)
        except (ValueError, RecursionError, msgspec.MsgspecError) as error:
            msg = f"not a payload of {getattr(self.payload_type, '__name__', 'JSON')}: {type(error).__name__}: {error}"[:300]
            raise PayloadError(msg) from None


_CHECKED = {dict, list, tuple, float, int}


def _check(value: object, where: str, depth: int) -> None:
    """Refuse what JSON would change on its way: NaN, infinity, wide integers, keys that are not str, other types."""
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return
    if kind is int:
        if not _MIN_INT <= value <= _MAX_INT:  # type: ignore[operator]
            msg = f"{where}: an integer of more than 64 bits would not come back equal; send it as str"
            raise PayloadError(msg)
    elif kind is float:
        if not math.isfinite(value):  # type: ignore[arg-type]
            msg = f"{where}: NaN and infinity are not JSON"
            raise PayloadError(msg)
    elif depth > MAX_DEPTH:
        msg = f"{where[:80]}...: nested deeper than {MAX_DEPTH}"
        raise PayloadError(msg)
    elif kind is dict:
        for key, item in value.items():  # type: ignore[attr-defined]
            if type(key) is not str:
                msg = f"{where}: a key of type {type(key).__name__} would come back as str; use str keys"
                raise PayloadError(msg)
            if type(item) is not str:
                _check(item, f"{where}.{key}" if depth < 8 else where, depth + 1)  # noqa: PLR2004 - keep paths short
    elif kind is list or kind is tuple:
        for i, item in enumerate(value):  # type: ignore[arg-type, var-annotated]
            if type(item) is not str:
                _check(item, f"{where}[{i}]" if depth < 8 else where, depth + 1)  # noqa: PLR2004 - keep paths short
    else:
        msg = f"{where}: {kind.__name__} would come back as another type; set payload_type, or send JSON values"
        raise PayloadError(msg)
