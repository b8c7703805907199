"""Dead letters: browse, redrive, purge."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from fairqueue.ids import quote
from fairqueue.keys import message_key
from fairqueue.message import DeadLetter, read_dead_letter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairqueue.discards import Discards
    from fairqueue.keys import Keys
    from fairqueue.payload import Codec
    from fairqueue.scripts import Scripts

CHUNK = 500
MAX_CHUNKS = 10  # of letters that are too old, at a time
RUN_TTL_MS = 10_000


@attrs.frozen
class DeadLetterStore:
    """Dead letters of one namespace, by tenant."""

    keys: Keys
    scripts: Scripts
    codec: Codec
    discards: Discards

    def count(self, shard: int, tenant_id: str) -> int:
        """How many the tenant has."""
        key = self.keys.dead(shard, tenant_id)
        return int(self.scripts.connection.call(key, lambda _: ("ZCARD", key), repeatable=True))

    def page(
        self, shard: int, tenant_id: str, *, after: int, limit: int, before_ms: int | None = None
    ) -> tuple[int, list[DeadLetter]]:
        """How many died up to a time (None: any), and those from place *after* on, the oldest first."""
        before = "" if before_ms is None else before_ms
        total, *rows = self.scripts.call(
            "list_dead", self.keys.root(shard), tenant=quote(tenant_id), before=before, after=after, limit=limit
        )
        return total, [read_dead_letter(rows[i], rows[i + 1], self.codec) for i in range(0, len(rows), 2)]

    def find(self, shard: int, tenant_id: str, queue_id: str, message_id: str) -> DeadLetter | None:
        """One letter; None when the message is not dead."""
        key = message_key(tenant_id, queue_id, message_id)
        reply = self.scripts.call("find", self.keys.root(shard), key=key)
        return read_dead_letter(key.encode(), reply[1], self.codec) if reply and reply[0] == b"dead" else None

    def begin_redrive(self, shard: int, tenant_id: str, run: str) -> int:
        """Up to which time of death (ms) a redrive of all takes letters; again and again while it goes on."""
        return int(
            self.scripts.call("begin_redrive", self.keys.root(shard), tenant=quote(tenant_id), run=run, ttl=RUN_TTL_MS)
        )

    def end_redrive(self, shard: int, tenant_id: str, run: str) -> None:
        """This run is over."""
        key = self.keys.redriving(shard, tenant_id)
        self.scripts.connection.call(key, lambda _: ("ZREM", key, run), repeatable=True)

    def redrive(self, shard: int, message_keys: Sequence[str]) -> list[bool]:
        """Move letters back to their queues; False where one was not dead."""
        return [moved == 1 for moved in self.scripts.call("redrive", self.keys.root(shard), message_keys)]

    def tenants(self, shard: int, after: int, limit: int) -> list[str]:
        """Tenants that have letters, encoded, the one with the oldest first."""
        key = self.keys.part(shard, "letters")
        command = ("ZRANGE", key, after, after + limit - 1)
        return [name.decode() for name in self.scripts.connection.call(key, lambda _: command, repeatable=True)]

    def age(self, shard: int, ttl_ms: int) -> int:
        """Keep letters of that age no longer, a bounded number a call; how many went."""
        total = 0
        for _ in range(MAX_CHUNKS):
            gone, more, *discards = self.scripts.call("age_dead", self.keys.root(shard), age=ttl_ms, limit=CHUNK)
            self.discards.tell(discards)
            total += gone
            if not more:
                break
        return total

    def purge(self, shard: int, tenant_id: str, *, before_ms: int | None) -> int:
        """Delete letters that died up to a time (None: now), all of them, in chunks."""
        total = 0
        before = "" if before_ms is None else before_ms
        while True:
            gone: int = self.scripts.call(
                "purge_dead", self.keys.root(shard), tenant=quote(tenant_id), before=before, limit=CHUNK
            )
            total += gone
            if gone < CHUNK:
                return total
