"""The one narrow door to the server: send one command, read one reply, know what went wrong.

redis-py resends a command after a lost reply, so a script could run twice. Here a command goes out once
on a connection of the client's pool; it is sent again only when the caller says that this is safe.
"""

from __future__ import annotations

import re
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from redis import exceptions as redis_errors
from redis.cluster import RedisCluster

from fairqueue.errors import AccessDenied, OutcomeUnknown, ServerFull, StoreError, Unavailable
from fairqueue.jitter import JITTER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from redis import Redis

Argument = bytes | str | int | float
_REFUSED = (
    "READONLY",
    "LOADING",
    "BUSY",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "NOREPLICAS",
    "MISCONF",
    "UNBLOCKED",
)
_DENIED = ("NOAUTH", "WRONGPASS", "NOPERM")
_RIGHT = re.compile(r"'([\w|]+)' command|access (?:a|one of the) (key|channel)")
_ANSWER = 5.0  # seconds to wait for a reply where the caller's client would wait for ever
_NAMES = {
    redis_errors.ReadOnlyError: "READONLY",
    redis_errors.BusyLoadingError: "LOADING",
    redis_errors.OutOfMemoryError: "OOM",
    redis_errors.NoPermissionError: "NOPERM",
    redis_errors.AuthenticationError: "NOAUTH",
    redis_errors.MasterDownError: "MASTERDOWN",
}


class NoScript(Exception):  # internal: load the script and call again
    """The server does not know this script."""


class Connection:
    """Commands to one server or cluster through the caller's client, which stays the caller's."""

    def __init__(
        self, client: Redis | RedisCluster, *, patience: float = 3.0, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """Open nothing. *patience*: seconds in which a repeatable command is tried again."""
        self.client = client
        self._patience = patience
        self._sleep = sleep

    def after_fork(self) -> None:
        """In a child process: a lock of the pool that a thread of the parent held would stay held for ever.

        All else of a pool redis-py makes anew by itself.
        """
        pool = getattr(self.client, "connection_pool", None)
        for name in ("_lock", "_fork_lock"):
            if hasattr(pool, name):
                setattr(pool, name, threading.RLock())

    def call(self, route: str, command: Callable[[bool], Sequence[Argument]], *, repeatable: bool) -> Any:
        """Send ``command(again)`` to the server that holds the key *route*; reply is never decoded.

        Args:
            route: a key; chooses the node of a cluster.
            command: builds the arguments; *again* is True when an earlier sending may have been done.
            repeatable: sending it twice has one effect.

        Raises:
            Unavailable: it was not sent, or the server refused it.
            OutcomeUnknown: it was sent and no reply came.
            StoreError: the server answered with any other error.
            NoScript: for the caller to mend.
        """
        deadline = time.monotonic() + self._patience
        again, wait = False, 0.01
        while True:
            arguments = command(again)
            try:
                return self._once(route, arguments)
            except _NotSent as error:
                if not repeatable or time.monotonic() > deadline:
                    if again:
                        raise OutcomeUnknown(
                            _text("the reply was lost and the server is gone", error)
                        ) from error.__cause__
                    raise Unavailable(_text(_why_unsent(error), error)) from error.__cause__
            except _ReplyLost as error:
                if not repeatable or time.monotonic() > deadline:
                    raise OutcomeUnknown(_text("the request was sent, its reply was lost", error)) from error.__cause__
                again = True
            except redis_errors.ResponseError as error:
                self._refused(route, arguments, error)
            self._sleep(wait * JITTER.uniform(0.5, 1.5))
            wait = min(wait * 2, 0.5)

    def _once(self, route: str, arguments: Sequence[Argument]) -> Any:
        pool = self._pool(route)
        connection = self._checkout(pool)
        try:
            try:
                connection.send_command(*arguments)
                if connection.socket_timeout is None and not connection.can_read(_ANSWER):
                    raise redis_errors.TimeoutError(f"no reply within {_ANSWER:g} s")  # noqa: TRY301 - as its own would
                return connection.read_response(disable_decoding=True)
            except redis_errors.ResponseError:
                raise
            except (redis_errors.BusyLoadingError, redis_errors.AuthenticationError) as error:
                raise redis_errors.ResponseError(f"{_NAMES.get(type(error), '')} {error}") from None
            except redis_errors.TimeoutError as error:
                _drop_idle(pool)  # a half-open connection seldom comes alone
                raise _ReplyLost from error
            except (redis_errors.RedisError, OSError) as error:
                raise _ReplyLost from error
        except BaseException as error:
            if not isinstance(error, redis_errors.ResponseError):
                connection.disconnect()  # a reply may still be under way: it must not meet the next command
            raise
        finally:
            pool.release(connection)

    def _checkout(self, pool: Any) -> Any:
        deadline = time.monotonic() + self._patience
        while True:
            try:
                return pool.get_connection()
            except (redis_errors.BusyLoadingError, redis_errors.AuthenticationError) as error:
                raise redis_errors.ResponseError(f"{_NAMES.get(type(error), '')} {error}") from None
            except (redis_errors.RedisError, redis_errors.ChildDeadlockedError, OSError) as error:
                if "Too many connections" not in str(error) or time.monotonic() > deadline:
                    raise _NotSent from error
                self._sleep(0.001 * JITTER.uniform(0.5, 2))

    def _pool(self, route: str) -> Any:
        if isinstance(self.client, RedisCluster):
            node = self.client.get_node_from_key(route)  # type: ignore[no-untyped-call]  # redis-py's
            return self.client.get_redis_connection(node).connection_pool
        return self.client.connection_pool

    def _refused(self, route: str, arguments: Sequence[Argument], error: redis_errors.ResponseError) -> None:
        text = str(error)
        code = _NAMES.get(type(error)) or text.partition(" ")[0]
        if isinstance(error, redis_errors.NoScriptError) or code == "NOSCRIPT":
            raise NoScript from None
        if code == "OOM" or "OOM command not allowed" in text:
            msg = (
                f"the server's memory is full, nothing was accepted: drain or purge, or raise maxmemory ({text[:200]})"
            )
            raise ServerFull(msg) from None
        if code == "READONLY":
            _drop_idle(self._pool(route))  # so that the master is looked up anew
        if code in _REFUSED or "max number of clients" in text:
            msg = f"the server refused for now, nothing was accepted: {code} {text[:200]}"
            raise Unavailable(msg) from None
        if code in _DENIED:
            found = _RIGHT.search(text)
            right = (found[1] or found[2]) if found else ""
            named = f"the right {right!r}" if right else "a right"
            msg = f"the server denies this user {named} that fairqueue needs, at {route!r}: {code} {text[:200]}"
            raise AccessDenied(msg, rights=(right,) if right else ()) from None
        key = route if arguments[0] in {"EVALSHA", "EVAL"} or len(arguments) < 2 else str(arguments[1])  # noqa: PLR2004 - command, key
        raise StoreError(f"{arguments[0]!s} {key!r} failed: {text[:300]}", code=code, keys=(key,)) from None


class _NotSent(Exception):  # internal
    """Nothing left this process."""


class _ReplyLost(Exception):  # internal
    """It may have been done."""


def _drop_idle(pool: Any) -> None:
    with suppress(TypeError):  # a blocking pool of redis-py 6 can only drop all
        pool.disconnect(inuse_connections=False)


def _why_unsent(error: _NotSent) -> str:
    text = str(error.__cause__)
    if "Too many connections" in text or "No connection available" in text:
        return "every connection of the client's pool stayed in use, nothing was sent: raise its max_connections"
    return "the server could not be reached, nothing was sent"


def _text(what: str, error: Exception) -> str:
    cause = error.__cause__
    return f"{what}: {type(cause).__name__}: {cause}"[:400]
