"""Server check: at the first call, whether the server can carry a queue at all."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fairqueue.errors import AccessDenied, StoreError, Unavailable, UnsupportedServer
from fairqueue.scripts import commands

if TYPE_CHECKING:
    from fairqueue.scripts import Scripts

LEAST = {"redis": (7, 0), "valkey": (8, 0)}
_BESIDE = ("EVALSHA", "SCRIPT", "SUBSCRIBE", "PING")  # what is sent outside of scripts, and by none of them


def check_server(scripts: Scripts, root: str, *, allow_eviction: bool) -> None:
    """Refuse a server that is too old, evicts keys or is a replica; what it does not tell is accepted.

    Raises:
        UnsupportedServer: version or eviction policy; the text names the way out.
        Unavailable: it is a replica, or cannot be reached.
    """
    told = _info(scripts, root)
    product = "valkey" if "valkey_version" in told else "redis"
    shown = told.get(f"{product}_version", "")
    version = tuple(int(part) for part in re.findall(r"\d+", shown)[:2])
    if len(version) == 2 and version < LEAST[product]:  # noqa: PLR2004 - major, minor
        raise UnsupportedServer(f"the server is {product.title()} {shown}: Redis 7.0, Valkey 8 or newer is needed")
    policy = told.get("maxmemory_policy", "noeviction")
    if policy != "noeviction" and not allow_eviction:
        raise UnsupportedServer(
            f"the server's maxmemory-policy is {policy!r}, so it may throw messages away when its memory is full: "
            "set it to 'noeviction', use another server, or accept the loss with allow_eviction=True"
        )
    if told.get("role") == "slave":
        master = f"{told.get('master_host', '?')}:{told.get('master_port', '?')}"
        raise Unavailable(
            f"the server is a replica of {master} and takes no writes: connect to that master, or through Sentinel"
        )


def check_rights(scripts: Scripts, root: str, channel: str) -> None:
    """Refuse a user who lacks a right: found out in the middle of a script, half of it would be done.

    Raises:
        AccessDenied: ``rights`` names the commands; for SUBSCRIBE and PUBLISH it may be the channel.
    """
    needed = sorted({*commands(scripts.packages), *_BESIDE})
    denied = tuple(part.decode() for part in scripts.call("rights", root, needed, channel=channel))
    if denied:
        raise AccessDenied(
            f"the server denies this user rights that fairqueue needs: {', '.join(denied)} "
            f"(on keys {root.rpartition(':')[0]}:*, channels {channel.rpartition(':')[0]}:*); nothing was written",
            rights=denied,
        )


def _info(scripts: Scripts, root: str) -> dict[str, str]:
    try:
        reply = scripts.connection.call(root, lambda _: ("INFO",), repeatable=True)
    except (AccessDenied, StoreError):  # a managed server may keep it to itself
        return {}
    lines = bytes(reply).decode("utf-8", "replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)
