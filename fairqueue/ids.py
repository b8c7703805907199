"""Ids: the rule they keep, and their one encoding into keys."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import unquote as unquote
from urllib.parse import quote as _percent

from fairqueue.errors import ConfigurationError, InvalidId

MAX_BYTES = 256
_PLAIN = re.compile(r"[A-Za-z0-9_.-]+").fullmatch
_NAMESPACE = re.compile(r"[A-Za-z0-9_.-]{1,64}").fullmatch


def check_id(kind: str, value: object) -> str:
    """Return *value* if it may serve as an id.

    Raises:
        InvalidId: not a str, empty, longer than 256 UTF-8 bytes, or not encodable.
    """
    if isinstance(value, str):
        if _PLAIN(value) and len(value) <= MAX_BYTES:
            return str(value)
        try:
            size = len(value.encode())
        except UnicodeEncodeError:
            size = 0
        if 1 <= size <= MAX_BYTES:
            return str(value)
    shown = ascii(value)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."  # noqa: PLR2004 - a line of a log
    msg = f"{kind} {shown} is not an id: a str of 1 to {MAX_BYTES} bytes of UTF-8 is needed"
    raise InvalidId(msg, kind=kind, value=shown)


def check_namespace(value: object) -> str:
    """Return *value* if it may serve as a namespace.

    Raises:
        ConfigurationError: not 1 to 64 characters of ``A-Z a-z 0-9 _ . -``.
    """
    if isinstance(value, str) and _NAMESPACE(value):
        return value
    msg = f"namespace {ascii(value)[:80]} is not allowed: 1 to 64 characters of A-Z a-z 0-9 _ . - are needed"
    raise ConfigurationError(msg)


@lru_cache(maxsize=8192)
def quote(value: str) -> str:
    """Percent-encode every byte outside ``A-Za-z0-9_.-``; injective, and undone by `unquote`."""
    if _PLAIN(value):
        return value
    return _percent(value, safe="").replace("~", "%7E")
