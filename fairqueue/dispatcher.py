"""Dispatcher: hands out ahead of the workers what they wait for, wakes them for what falls due, renews limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairqueue.loops import each

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairqueue.limits import LiveLimits
    from fairqueue.options import FairQueueOptions
    from fairqueue.store.worker_queues import WorkerQueueStore

LOOK = 1.0  # seconds between looks when nothing is due sooner


class Dispatcher:
    """The role of some shards; each look is one script a worker queue."""

    def __init__(
        self, options: FairQueueOptions, store: WorkerQueueStore, shards: Sequence[int], limits: LiveLimits
    ) -> None:
        """Collaborators are handed in."""
        self._options = options
        self._store = store
        self._shards = shards
        self._limits = limits
        self._wait = LOOK

    def run_once(self) -> int:
        """Renew the limits that are due, then dispatch once for every worker queue; returns messages moved."""
        self._wait = LOOK
        return each(self._shards, self._shard)

    def idle(self) -> float:
        """Seconds until the next look."""
        return max(self._wait, 0.001)

    def _shard(self, shard: int) -> int:
        self._look_in(self._limits.refresh(shard))
        moved = 0
        for name in self._store.names(shard):
            n, due = self._store.dispatch(
                shard, name, self._options.dispatch_batch_size, self._options.worker_queue_max_depth
            )
            moved += n
            self._look_in(due)
        return moved

    def _look_in(self, wait: float | None) -> None:
        if wait is not None:
            self._wait = min(self._wait, wait)
