"""Waiting without polling: one subscription per process, on which scripts wake who waits."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from fairqueue.errors import Unavailable
from fairqueue.loops import Failures

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairqueue.events import Events
    from fairqueue.nodes import Nodes

PING = 1.0  # seconds between two signs of life on the subscription; it is opened anew when one is missed
CONNECT = 1.5  # seconds for its connection, where the caller's client would try for ever
LOOK = 5.0  # seconds: a lost wake-up costs at most this
EVERYWHERE = ""  # instead of a shard's root key


class Wakeups:
    """Calls everyone who registered when this process's channel is published to, or may have been."""

    name = "fairqueue.wakeups"

    def __init__(self, nodes: Nodes, channel: str, told: Events) -> None:
        """Open nothing."""
        self.channel = channel
        self._nodes = nodes
        self._callbacks: list[Callable[[str], None]] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._subscribed = threading.Event()
        self._thread: threading.Thread | None = None
        self._failures = Failures(self.name, told)

    @property
    def healthy(self) -> bool:
        """Whether it is subscribed, as far as it knows."""
        return self._thread is not None and self._thread.is_alive() and not self._failures.failing

    def register(self, wake: Callable[[str], None]) -> None:
        """Have *wake* called from now on, with the root key of the shard that has work, or "" when any may have.

        Starts the subscription with the first.
        """
        with self._lock:
            self._callbacks.append(wake)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
                self._thread.start()
        self._subscribed.wait(2)

    def unregister(self, wake: Callable[[str], None]) -> None:
        """Not any more."""
        with self._lock, suppress(ValueError):
            self._callbacks.remove(wake)

    def close(self) -> None:
        """End the subscription."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(5)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._listen()
            except BaseException as error:  # noqa: BLE001 - a loop survives, loudly
                self._subscribed.clear()
                self._stop.wait(self._failures.note(error))

    def _listen(self) -> None:
        subscription = self._open()
        try:
            subscription.subscribe(self.channel)
            asked, heard = time.monotonic(), True
            while not self._stop.is_set():
                message = subscription.get_message(timeout=PING / 2)
                now = time.monotonic()
                heard = heard or message is not None
                if now - asked >= PING:
                    if not heard:
                        raise Unavailable("the subscription gave no sign of life")
                    subscription.ping()
                    asked, heard = now, False
                if message is None or message["type"] not in {"subscribe", "message"}:
                    continue
                self._failures.ok()
                self._subscribed.set()
                with self._lock:
                    callbacks = list(self._callbacks)
                root = message["data"].decode() if message["type"] == "message" else EVERYWHERE
                for wake in callbacks:
                    wake(root)
        finally:
            subscription.close()

    def _open(self) -> Any:
        """A subscription on a connection of its own: the caller's pool may be small."""
        pool = self._nodes.some_pool()
        if type(pool) not in {redis.ConnectionPool, redis.BlockingConnectionPool}:
            return _pubsub(redis.Redis(connection_pool=pool))
        settings = {**pool.connection_kwargs, "retry": Retry(NoBackoff(), 0), "decode_responses": False}
        if "path" not in settings and settings.get("socket_connect_timeout") is None:
            settings["socket_connect_timeout"] = CONNECT
        own = redis.ConnectionPool(connection_class=pool.connection_class, max_connections=1, **settings)
        return _pubsub(redis.Redis(connection_pool=own))


def _pubsub(client: Any) -> Any:  # typed in some releases of redis-py only
    return client.pubsub()
