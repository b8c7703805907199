"""What JSON carries unchanged: dict with str keys, list, str, int, finite float, bool, None; tuples become lists."""

from __future__ import annotations

import re
from math import isfinite
from typing import TYPE_CHECKING, Any

from fairqueue.errors import PayloadError, PayloadTooLarge

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_DEPTH = 512
#: Digits of an integer that every reader can be trusted to take.
MAX_DIGITS = 4300
_WIDEST = 10**MAX_DIGITS
_LOWEST = -(10 ** (MAX_DIGITS - 1))  # the sign counts as a digit to some readers
_SAFE_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}").fullmatch


def is_plain(payload: object, most: int) -> bool:  # noqa: C901 - one hot loop
    """Tell whether all of it is plain, no deeper than MAX_DEPTH, of at most *most* values: level by level, quick."""
    level: list[Any] = [(payload,)]
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for box in level:
            most -= len(box)
            if most < 0:
                return False
            items = box
            if type(box) is dict:
                for key in box:
                    if type(key) is not str:
                        return False
                items = box.values()
            for item in items:
                kind = type(item)
                if kind is str or kind is int or kind is bool or item is None:
                    continue
                if kind is dict or kind is list or kind is tuple:
                    below.append(item)
                elif kind is not float or not isfinite(item):
                    return False
        if not below:
            return True
        level = below
    return False


def refusal(payload: object, where: str, most: int) -> PayloadError | None:
    """Say why a payload is refused, if it is: the same walk again, slower, knowing the way."""
    level: list[tuple[Any, str]] = [((payload,), where)]
    count = 0
    for depth in range(MAX_DEPTH + 1):
        below = []
        for box, path in level:
            count += len(box)
            if count > most:
                return too_large(where, 2 * count, most, "at least ")
            for item, place in _inside(box, path, depth):
                why = _key_trouble(item) if place is None else _trouble(item)
                if why:
                    at = f"a key of {path}" if place is None else place
                    return PayloadError(f"{at}: {why}", path=place or path)
                if place is not None and type(item) in {dict, list, tuple}:
                    below.append((item, place))
        level = below
    if not level:
        return None
    return PayloadError(f"{level[0][1]}: nested deeper than {MAX_DEPTH}", path=level[0][1])


def _inside(box: Any, path: str, depth: int) -> Iterator[tuple[Any, str | None]]:
    """What a container holds and where, keys (without a place) first; the path stops growing after 8 steps."""
    if depth == 0:
        yield box[0], path
    elif type(box) is dict:
        for key, item in box.items():
            yield key, None
            step = f".{key}" if type(key) is str and _SAFE_KEY(key) else "[...]"
            yield item, path if depth > 8 else path + step  # noqa: PLR2004 - a line of a log
    else:
        for i, item in enumerate(box):
            yield item, path if depth > 8 else f"{path}[{i}]"  # noqa: PLR2004 - a line of a log


def _key_trouble(key: Any) -> str:
    if type(key) is not str:
        return f"of type {type(key).__name__}, it would come back as str; use str keys"
    return _trouble(key)


def _trouble(item: Any) -> str:
    """Say what keeps one value out, if anything does."""
    kind = type(item)
    if kind is str:
        return "" if item.isascii() or not _has_surrogate(item) else "a lone surrogate is not UTF-8"
    if kind is int:
        return "" if _LOWEST < item < _WIDEST else f"an integer of more than {MAX_DIGITS} digits"
    if kind is float:
        return "" if isfinite(item) else "NaN and infinity are not JSON and would come back as null"
    if item is None or kind in {bool, dict, list, tuple}:
        return ""
    return (
        f"a value of type {kind.__name__} would come back as another type: "
        "set payload_type to a class that holds it, or send plain JSON values"
    )


def _has_surrogate(text: str) -> bool:
    return any("\ud800" <= char <= "\udfff" for char in text)


def too_large(where: str, size: int, limit: int, about: str = "") -> PayloadTooLarge:
    """Make the error for a payload of *size* bytes where *limit* are allowed."""
    return PayloadTooLarge(
        f"{where} is {about}{size:,} bytes, more than max_payload_bytes={limit:,}: "
        "store it elsewhere and send a reference",
        size=size,
        limit=limit,
        path=where,
    )
