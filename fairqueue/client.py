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
        "socket_timeout": 2.5,  # a reply takes milliseconds; half-open connections are given up within 3 s
        "socket_connect_timeout": 1.5,
        "protocol": 2,
        **settings,
    }
    if not url.startswith("unix://"):
        options.setdefault("socket_keepalive", True)
    try:
        client = redis.Redis.from_url(url, **options)
        pool = client.connection_pool
        pool.connection_class(**pool.connection_kwargs)  # refuses a setting that it does not know
    except (ValueError, TypeError, AttributeError) as error:
        known = "redis://, rediss:// and unix:// are known"
        msg = f"the server's URL {_shown(url)} cannot be used: {type(error).__name__}; {known}"
        raise ConfigurationError(msg) from None
    return client


def _shown(url: object) -> str:
    if not isinstance(url, str):
        return repr(type(url))
    try:
        parts = urlsplit(url)
    except ValueError:
        return "(unreadable)"
    return f"{parts.scheme}://{parts.hostname or ''}..."
