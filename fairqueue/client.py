"""Our client factory: a redis.Redis whose settings fit a queue."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from fairqueue.errors import ConfigurationError


def connect(url: str, **settings: Any) -> redis.Redis:
    """A client for *url* (``redis://``, ``rediss://`` or ``unix://``). Opens no socket yet.

    redis-py resends a command up to ten times after a lost reply, so a script could run twice: here it never
    does. Other *settings* go to ``redis.Redis.from_url``.

    Raises:
        ConfigurationError: the URL cannot be read; its password is not shown.
    """
    options: dict[str, Any] = {
        "retry": Retry(NoBackoff(), 0),
        "socket_timeout": 5.0,
        "socket_connect_timeout": 2.0,
        "protocol": 2,
        **settings,
    }
    if not url.startswith("unix://"):
        options.setdefault("socket_keepalive", True)
    try:
        return redis.Redis.from_url(url, **options)
    except (ValueError, TypeError) as error:
        parts = urlsplit(url) if isinstance(url, str) else None
        shown = f"{parts.scheme}://{parts.hostname or ''}..." if parts else repr(type(url))
        known = "redis://, rediss:// and unix:// are known"
        msg = f"the server's URL {shown} cannot be used: {type(error).__name__}; {known}"
        raise ConfigurationError(msg) from None
