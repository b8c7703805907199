"""Worker queues: messages dispatched ahead of those who take them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from fairqueue.ids import quote, unquote

if TYPE_CHECKING:
    from fairqueue.keys import Keys
    from fairqueue.scripts import Scripts

CHUNK = 500


@attrs.frozen
class WorkerQueueStore:
    """Worker queues of one namespace."""

    keys: Keys
    scripts: Scripts

    def names(self, shard: int) -> list[str]:
        """Those that have had messages and workers."""
        fields = self.scripts.call("pools", self.keys.root(shard))
        return [unquote(field.decode()) for field in fields]

    def dispatch(self, shard: int, name: str, n: int, depth: int) -> tuple[int, float | None]:
        """Move up to *n* messages to it, never past *depth*; also seconds until the next one is due."""
        moved, wait = self.scripts.call("dispatch", self.keys.root(shard), pool=quote(name), n=n, depth=depth)
        return moved, None if wait < 0 else wait / 1000

    def give_back(self, shard: int, name: str, *, older_than_ms: int) -> int:
        """Return what nobody took to its place; -1 means all of it."""
        total = 0
        while True:
            moved: int = self.scripts.call(
                "give_back", self.keys.root(shard), pool=quote(name), age=older_than_ms, limit=CHUNK
            )
            total += moved
            if moved < CHUNK:
                return total

    def length(self, shard: int, name: str) -> int:
        """Messages in it."""
        return int(
            self.scripts.connection.call(
                self.keys.root(shard), lambda _: ("LLEN", self.keys.worker_queue(shard, name)), repeatable=True
            )
        )

    def peek(self, shard: int, name: str, limit: int) -> list[str]:
        """Keys of the messages in it, in the order they will be taken."""
        reply = self.scripts.call("list_queue", self.keys.root(shard), pool=quote(name), limit=limit)
        return [key.decode() for key in reply]

    def withdraw(self, shard: int, message_key: str) -> bool:
        """Give one message of it back to its place."""
        return bool(self.scripts.call("withdraw", self.keys.root(shard), key=message_key))
