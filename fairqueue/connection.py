"""The one narrow door to the server: send one command, read one reply, know what went wrong.

redis-py resends a command after a lost reply, so a script could run twice. Here a command goes out once
on a connection of the client's pool; it is sent again only when the caller says that this is safe.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from redis import exceptions as redis_errors

from fairqueue.errors import AccessDenied, OutcomeUnknown, ServerFull, StoreError, Unavailable
from fairqueue.jitter import JITTER
from fairqueue.nodes import Nodes, NoNode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from redis import Redis
    from redis.cluster import RedisCluster

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
    redis_errors.ClusterDownError: "CLUSTERDOWN",
    redis_errors.TryAgainError: "TRYAGAIN",
    redis_errors.MovedError: "MOVED",
    redis_errors.AskError: "ASK",
}
_ON_ITS_WAY = "access a non local key"  # what a script is told whose slot is leaving or coming: see scripts.py


class NoScript(Exception):  # internal: load the script and call again
    """The server does not know this script."""


class Connection:
    """Commands to one server or cluster through the caller's client, which stays the caller's."""

    def __init__(
        self, client: Redis | RedisCluster, *, patience: float = 3.0, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """Open nothing. *patience*: seconds in which a repeatable command is tried again."""
        self.nodes = Nodes(client)
        self._patience = patience
        self._sleep = sleep

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
            arguments, seen, moved = command(again), self.nodes.version, False
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
                moved = _elsewhere(error)
                if not moved or not self.nodes.cluster or time.monotonic() > deadline:
                    self._refused(route, arguments, error)
            self.nodes.look_again(seen, moved=moved)
            self._sleep(wait * JITTER.uniform(0.5, 1.5))
            wait = min(wait * 2, 0.5)

    def _once(self, route: str, arguments: Sequence[Argument]) -> Any:
        try:
            pool = self.nodes.pool(route)
        except NoNode as error:
            raise _NotSent from error
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

    def _refused(self, route: str, arguments: Sequence[Argument], error: redis_errors.ResponseError) -> None:
        text, code = str(error), _code(error)
        if isinstance(error, redis_errors.NoScriptError) or code == "NOSCRIPT":
            raise NoScript from None
        if code == "OOM" or "OOM command not allowed" in text:
            msg = (
                f"the server's memory is full, nothing was accepted: drain or purge, or raise maxmemory ({text[:200]})"
            )
            raise ServerFull(msg) from None
        if code == "READONLY":
            _drop_idle(self.nodes.pool(route))  # so that the master is looked up anew
        if code in _REFUSED or "max number of clients" in text:
            msg = f"the server refused for now, nothing was accepted: {code} {text[:200]}"
            raise Unavailable(msg) from None
        if _elsewhere(error):
            raise Unavailable(_where(route, text, cluster=self.nodes.cluster)) from None
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


def _code(error: redis_errors.ResponseError) -> str:
    return _NAMES.get(type(error)) or str(error).partition(" ")[0]


def _elsewhere(error: redis_errors.ResponseError) -> bool:
    """Whether the key's slot has moved, or is on its way: nothing was done."""
    return _code(error) in {"MOVED", "ASK"} or _ON_ITS_WAY in str(error)


def _where(route: str, text: str, *, cluster: bool) -> str:
    if not cluster:
        return f"the server is a node of a cluster, nothing was accepted: connect with a RedisCluster ({text[:200]})"
    return f"the slot of {route!r} is moving to another node, nothing was accepted: try again ({text[:200]})"


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
