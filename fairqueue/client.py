"""Our client factory: a client of redis-py whose settings fit a queue."""

from __future__ import annotations

from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

import redis
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import RedisClusterException
from redis.retry import Retry

from fairqueue.errors import ConfigurationError, Unavailable

_CLUSTER = {"redis+cluster": False, "rediss+cluster": True}  # and whether with TLS
_PORT = 6379


def connect(url: str, **settings: Any) -> redis.Redis | RedisCluster:
    """A client for *url*: ``redis://``, ``rediss://``, ``unix://`` or ``redis+cluster://host:port,host:port``.

    Opens no socket yet, except to a cluster, whose slots are looked up. redis-py resends a command up to ten times
    after a lost reply, so a script could run twice: here it never does. Other *settings* go to redis-py.

    Raises:
        ConfigurationError: the URL cannot be read; its password is not shown.
        Unavailable: no node of the cluster could be reached.
    """
    options: dict[str, Any] = {
        "retry": Retry(NoBackoff(), 0),
        "socket_timeout": 2.5,  # a reply takes milliseconds; half-open connections are given up within 3 s
        "socket_connect_timeout": 1.5,
        "protocol": 2,
        **settings,
    }
    try:
        parts = urlsplit(url)
        if parts.scheme != "unix":
            options.setdefault("socket_keepalive", True)
        if parts.scheme in _CLUSTER:
            return _cluster(parts, options)
        client = redis.Redis.from_url(url, **options)
        pool = client.connection_pool
        pool.connection_class(**pool.connection_kwargs)  # refuses a setting that it does not know
    except (ValueError, TypeError, AttributeError) as error:
        known = "redis://, rediss://, unix:// and redis+cluster:// are known"
        msg = f"the server's URL {_shown(url)} cannot be used: {type(error).__name__}; {known}"
        raise ConfigurationError(msg) from None
    return client


def _cluster(parts: SplitResult, options: dict[str, Any]) -> RedisCluster:
    login, _, hosts = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    if parts.path not in {"", "/"} or parts.query:
        raise ValueError("a cluster has one database, and settings are given as arguments")
    nodes = [urlsplit(f"//{host}") for host in hosts.split(",")]
    if not all(node.hostname for node in nodes):
        raise ValueError("a host is missing")
    try:
        return RedisCluster(
            startup_nodes=[ClusterNode(node.hostname, node.port or _PORT) for node in nodes],  # type: ignore[no-untyped-call, unused-ignore]  # in some releases of redis-py
            ssl=_CLUSTER[parts.scheme],
            username=unquote(user) or None,
            password=unquote(password) or None,
            **options,
        )
    except (RedisClusterException, redis.RedisError, OSError) as error:
        raise Unavailable(f"no node of the cluster {hosts} could be reached: {error}"[:400]) from error


def _shown(url: object) -> str:
    if not isinstance(url, str):
        return repr(type(url))
    try:
        parts = urlsplit(url)
    except ValueError:
        return "(unreadable)"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}..."
