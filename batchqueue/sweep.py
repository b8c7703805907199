"""Sweep: what time brings to batches: fill deadlines, the end of a retention, and what a caller left half way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchqueue.keys import split_batch_key
from fairqueue.loops import each

if TYPE_CHECKING:
    from collections.abc import Callable

    from batchqueue.ledger import BatchName, Ledger

IDLE = 0.5  # seconds between two looks


class Sweep:
    """The role of all shards."""

    def __init__(
        self,
        ledger: Ledger,
        shards: range,
        name: Callable[[str, str], BatchName],
        purge: Callable[[str, str], int],
    ) -> None:
        """*name* makes a batch's name of its ids, *purge* takes out what waits of a batch."""
        self._ledger = ledger
        self._shards = shards
        self._name = name
        self._purge = purge

    def run_once(self) -> int:
        """See to everything that is due; returns batches that were."""
        return each(self._shards, self._shard)

    def idle(self) -> float:
        """Seconds until the next look."""
        return IDLE

    def _shard(self, shard: int) -> int:
        n, left = self._ledger.due(shard)
        for what, key in left:
            tenant_id, batch_id = split_batch_key(key)
            if what == "purge":
                self._purge(tenant_id, batch_id)
            else:
                while self._ledger.feed(self._name(tenant_id, batch_id)):
                    pass
        return n
