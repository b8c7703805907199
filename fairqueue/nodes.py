"""Nodes: the servers behind the caller's client, one or the masters of a cluster, and which of them holds a key."""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING, Any

from redis.cluster import RedisCluster
from redis.exceptions import RedisClusterException, RedisError

if TYPE_CHECKING:
    from redis import Redis

_APART = 0.1  # seconds between two looks at the slot map that nothing but trouble asks for


class NoNode(Exception):  # internal: nothing was sent
    """No server is known that holds the key."""


class Nodes:
    """Connection pools by key. The client stays the caller's, and so does its slot map, which is kept up to date."""

    def __init__(self, client: Redis | RedisCluster) -> None:
        """Open nothing."""
        self._client: Any = client
        self.cluster = isinstance(client, RedisCluster)
        self.version = 0  # of the slot map: grows when it was read anew
        self._lock = threading.Lock()
        self._looked = 0.0  # monotonic

    def pool(self, key: str) -> Any:
        """The pool of the server that holds *key*.

        Raises:
            NoNode: the cluster does not cover its slot now.
        """
        if not self.cluster:
            return self._client.connection_pool
        try:
            return self._client.get_redis_connection(self._client.get_node_from_key(key)).connection_pool
        except (RedisClusterException, RedisError, OSError, KeyError) as error:
            raise NoNode(f"no node is known that holds {key!r}: {error}") from error

    def some_pool(self) -> Any:
        """The pool of any master, another from time to time: for what every server does alike.

        Raises:
            NoNode: none is known.
        """
        if not self.cluster:
            return self._client.connection_pool
        masters = self._client.get_primaries()
        if not masters:
            raise NoNode("no master of the cluster is known")
        return self._client.get_redis_connection(random.choice(masters)).connection_pool  # noqa: S311 - no secret

    def look_again(self, seen: int, *, moved: bool = False) -> None:
        """Read the slot map anew, unless somebody did since version *seen*, or just now where no slot has *moved*.

        Raises nothing: when no node answers, the map stays as it is.
        """
        if not self.cluster:
            return
        with self._lock:
            if self.version != seen or (not moved and time.monotonic() - self._looked < _APART):
                return
            try:
                self._client.nodes_manager.initialize()
                self.version += 1
            except (RedisClusterException, RedisError, OSError):
                pass
            self._looked = time.monotonic()

    def after_fork(self) -> None:
        """In a child process: a lock that a thread of the parent held would stay held for ever.

        All else of a pool redis-py makes anew by itself.
        """
        self._lock = threading.Lock()
        owners = [self._client.connection_pool] if not self.cluster else [self._client, self._client.nodes_manager]
        if self.cluster:
            connections = [node.redis_connection for node in self._client.get_nodes()]
            owners += [connection.connection_pool for connection in connections if connection is not None]
        fresh: dict[int, Any] = {}  # some owners share a lock
        for owner in owners:
            for name in ("_lock", "_fork_lock", "_initialization_lock"):
                if hasattr(owner, name):
                    setattr(owner, name, fresh.setdefault(id(getattr(owner, name)), threading.RLock()))
