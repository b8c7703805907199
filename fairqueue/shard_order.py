"""Shard order: which shard to ask first, so that tenants are served alike on all of them.

Each shard keeps a virtual time of its own for each worker queue. Asking the shard whose clock is lowest keeps them
together: equal clocks mean that every backlogged tenant everywhere has had the same service by weight. A shard
that comes back from being idle has a clock that stood still: its next call lifts it to the lowest clock of the
others that the caller knows, its *floor*, else its tenants would be over-served.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class ShardOrder:
    """What one caller knows of the clocks of one worker queue: those it was told last."""

    def __init__(self, shards: Iterable[int]) -> None:
        """Nothing is known: every shard is idle at 0."""
        self._clock = dict.fromkeys(shards, 0.0)
        self._busy: set[int] = set()

    def order(self, shards: Iterable[int]) -> list[int]:
        """Those shards, the lowest clock first."""
        return sorted(shards, key=lambda shard: (self._clock[shard], shard))

    def floor(self, shard: int) -> float | None:
        """The lowest clock of the other shards that have work; -1 when none has; None when there is no other."""
        if len(self._clock) == 1:
            return None
        return min((self._clock[other] for other in self._busy if other != shard), default=-1.0)

    def note(self, shard: int, clock: float, *, busy: bool) -> None:
        """A reply told the shard's clock, and whether it has more work."""
        self._clock[shard] = clock
        if busy:
            self._busy.add(shard)
        else:
            self._busy.discard(shard)
