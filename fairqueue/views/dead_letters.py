"""``q.dead_letters``: messages that are given up on, by tenant."""

from __future__ import annotations

import time
import uuid
from functools import partial
from typing import TYPE_CHECKING

import attrs

from fairqueue.durations import ratio, seconds, to_ms
from fairqueue.errors import InvalidArgument
from fairqueue.ids import check_id, unquote
from fairqueue.keys import message_key
from fairqueue.views.page import Page, page_size, paged

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from fairqueue.message import DeadLetter
    from fairqueue.resolver import Resolver
    from fairqueue.store.dead_letters import DeadLetterStore

CHUNK = 100  # letters read at once by redrive_all
DAY = 86_400


@attrs.frozen
class DeadLetters:
    """``q.dead_letters``. A letter keeps payload, metadata and every failure, until it is redriven or purged.

    `dead_letter_limit` and `dead_letter_ttl` end the oldest ones; hooks are told (`fairqueue.events.Discarded`).
    """

    _resolver: Resolver
    _store: DeadLetterStore
    _shards: range
    _now_ms: Callable[[], int]
    _sleep: Callable[[float], None] = time.sleep

    def count(self, tenant_id: str) -> int:
        """How many a tenant has."""
        return self._store.count(self._resolver.shard(tenant_id), tenant_id)

    def tenants(self, *, limit: int = 100, cursor: str | None = None) -> Page[str]:
        """Tenants that have dead letters, shard by shard, the one with the oldest first."""

        def read(shard: int, after: str, n: int) -> list[tuple[str, str]]:
            at = int(after or 0)
            names = self._store.tenants(shard, at, n)
            return [(str(at + i + 1), unquote(name)) for i, name in enumerate(names)]

        return paged(self._shards, cursor, limit, read)

    def get(self, tenant_id: str, queue_id: str, message_id: str) -> DeadLetter | None:
        """One letter; None when the message is not dead."""
        check_id("queue_id", queue_id)
        check_id("message_id", message_id)
        return self._store.find(self._resolver.shard(tenant_id), tenant_id, queue_id, message_id)

    def redrive(self, tenant_id: str, queue_id: str, message_id: str) -> bool:
        """Back to its queue with attempt 1 and its history; False when it is not dead."""
        check_id("queue_id", queue_id)
        check_id("message_id", message_id)
        key = message_key(tenant_id, queue_id, message_id)
        return self._store.redrive(self._resolver.shard(tenant_id), [key])[0]

    def redrive_all(
        self, tenant_id: str, *, where: Callable[[DeadLetter], bool] | None = None, rate: float | None = None
    ) -> int:
        """Every letter that is dead now back to its queue; how many this call moved.

        A letter that dies again stays dead, also when two plain calls run side by side: together they move each once.

        Args:
            tenant_id: whose letters.
            where: only letters it says True to.
            rate: at most so many a second.
        """
        shard = self._resolver.shard(tenant_id)
        if rate is not None:
            ratio("rate", rate, minimum=0.001, maximum=1_000_000, error=InvalidArgument)
        if where is not None or rate is not None:
            return self._redrive_until(shard, tenant_id, self._now_ms(), where, rate)
        run = uuid.uuid4().hex
        try:
            before = self._store.begin_redrive(shard, tenant_id, run)
            self._sleep(0.002)  # so that what dies again died later than that
            beat = partial(self._store.begin_redrive, shard, tenant_id, run)
            return self._redrive_until(shard, tenant_id, before, beat=beat)
        finally:
            self._store.end_redrive(shard, tenant_id, run)

    def _redrive_until(
        self,
        shard: int,
        tenant_id: str,
        before: int,
        where: Callable[[DeadLetter], bool] | None = None,
        rate: float | None = None,
        beat: Callable[[], object] = lambda: None,
    ) -> int:
        size = CHUNK if rate is None else max(1, min(CHUNK, int(rate)))
        left, _ = self._store.page(shard, tenant_id, after=0, limit=1, before_ms=before)
        moved = passed = 0
        while left > 0:
            _, letters = self._store.page(shard, tenant_id, after=passed, limit=min(size, left), before_ms=before)
            if not letters:
                break
            left -= len(letters)
            chosen = [letter for letter in letters if where is None or where(letter)]
            passed += len(letters) - len(chosen)
            keys = [message_key(letter.tenant_id, letter.queue_id, letter.message_id) for letter in chosen]
            done = sum(self._store.redrive(shard, keys)) if keys else 0
            moved += done
            beat()
            if rate is not None and done and left > 0:
                self._sleep(done / rate)
        return moved

    def purge(self, tenant_id: str, *, older_than: float | timedelta | None = None) -> int:
        """Delete a tenant's letters, or those dead for longer than *older_than* seconds; how many."""
        before = None
        if older_than is not None:
            before = self._now_ms() - to_ms(seconds("older_than", older_than, maximum=3650 * DAY))
        return self._store.purge(self._resolver.shard(tenant_id), tenant_id, before_ms=before)

    def list(self, tenant_id: str, *, limit: int = 100, cursor: str | None = None) -> Page[DeadLetter]:
        """A page, the oldest first; go on with its ``cursor``."""
        after = cursor or "0"
        if not after.isdecimal():
            raise InvalidArgument(f"cursor={cursor!r} is none that a page gave")
        total, letters = self._store.page(
            self._resolver.shard(tenant_id), tenant_id, after=int(after), limit=page_size(limit)
        )
        place = int(after) + len(letters)
        return Page(letters, str(place) if letters and place < total else None)
