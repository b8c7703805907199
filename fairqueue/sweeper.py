"""Sweeper: an alarm. It looks for what must not be, changes nothing, and finds nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import structlog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairqueue.keys import Keys
    from fairqueue.scripts import Scripts


MOST = 10_000  # leases and streams of a shard that the loop looks at by itself: one script reads them all


@attrs.frozen
class Finding:
    """Two things in the store that do not agree."""

    shard: int
    kind: str
    about: str
    text: str


class Sweeper:
    """The role of some shards."""

    def __init__(self, keys: Keys, scripts: Scripts, shards: Sequence[int], interval: float | None) -> None:
        """Collaborators are handed in."""
        self._keys = keys
        self._scripts = scripts
        self._shards = shards
        self._interval = interval

    def audit(self) -> list[Finding]:
        """Everything that does not agree now. Read-only; the server is busy for 5 ms a thousand leases."""
        return [finding for shard in self._shards for finding in self._look(shard)]

    def run_once(self) -> int:
        """Look once at every shard that is not too large for it; returns findings, each logged."""
        found = [finding for shard in self._shards if self._size(shard) <= MOST for finding in self._look(shard)]
        for finding in found[:10]:
            structlog.get_logger("fairqueue").error("fairqueue.audit_failed", **attrs.asdict(finding))
        return len(found)

    def _look(self, shard: int) -> list[Finding]:
        reply = [part.decode() for part in self._scripts.call("audit", self._keys.root(shard))]
        return [Finding(shard, *reply[i : i + 3]) for i in range(0, len(reply), 3)]

    def _size(self, shard: int) -> int:
        return self._count(shard, "leases") + self._count(shard, "streams")

    def _count(self, shard: int, name: str) -> int:
        key = self._keys.part(shard, name)
        return int(self._scripts.connection.call(key, lambda _: ("ZCARD", key), repeatable=True))

    def idle(self) -> float:
        """Seconds until the next look."""
        return float(self._interval or 3600)
