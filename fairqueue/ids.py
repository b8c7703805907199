"""Ids: the rule they keep, and their one encoding into keys."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import quote as _percent
from urllib.parse import unquote as _unpercent

from fairqueue.errors import ConfigurationError, InvalidId, shown

MAX_BYTES = 256
_PLAIN = re.compile(r"[A-Za-z0-9_.-]+").fullmatch
_NAMESPACE = re.compile(r"[A-Za-z0-9_.-]{1,64}").fullmatch


def check_id(kind: str, value: object) -> str:
    """Return *value* as a plain str if it may serve as an id. Any characters may; nothing is normalised.

    Args:
        kind: what the id names, for the error: ``tenant_id``, ``queue_id``...
        value: the id; subclasses of str are taken by their characters.

    Raises:
        InvalidId: not a str, empty, longer than 256 bytes of UTF-8, or with a lone surrogate.
    """
    if isinstance(value, str):
        text = str.__str__(value)
        if len(text) <= MAX_BYTES:
            if _PLAIN(text):
                return text
            try:
                size = len(text.encode())
            except UnicodeEncodeError:
                size = 0
            if 1 <= size <= MAX_BYTES:
                return text
    refused = shown(value)
    msg = f"{kind} {refused} is not an id: a str of 1 to {MAX_BYTES} bytes of UTF-8 without lone surrogates is needed"
    raise InvalidId(msg, kind=kind, value=refused)


def check_namespace(value: object) -> str:
    """Return *value* as a plain str if it may serve as a namespace.

    Raises:
        ConfigurationError: not 1 to 64 characters of ``A-Z a-z 0-9 _ . -``.
    """
    if isinstance(value, str) and _NAMESPACE(value):
        return str.__str__(value)
    msg = f"namespace {shown(value)} is not allowed: 1 to 64 characters of A-Z a-z 0-9 _ . - are needed"
    raise ConfigurationError(msg)


@lru_cache(maxsize=8192)
def quote(value: str) -> str:
    """Percent-encode every byte outside ``A-Za-z0-9_.-``, in capitals; injective, and undone by `unquote`."""
    return value if _PLAIN(value) else _percent(value, safe="").replace("~", "%7E")


def unquote(value: str) -> str:
    """The id that `quote` encoded."""
    return _unpercent(value, errors="strict")
