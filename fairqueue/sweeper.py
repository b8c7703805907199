"""Sweeper: an alarm. It looks for what must not be, changes nothing, and finds nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import structlog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairqueue.keys import Keys
    from fairqueue.scripts import Scripts


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
        """Everything that does not agree now. Read-only."""
        found = []
        for shard in self._shards:
            reply = [part.decode() for part in self._scripts.call("audit", self._keys.root(shard))]
            found += [Finding(shard, *reply[i : i + 3]) for i in range(0, len(reply), 3)]
        return found

    def run_once(self) -> int:
        """Look once; returns findings, each logged."""
        found = self.audit()
        for finding in found[:10]:
            structlog.get_logger("fairqueue").error("fairqueue.audit_failed", **attrs.asdict(finding))
        return len(found)

    def idle(self) -> float:
        """Seconds until the next look."""
        return float(self._interval or 3600)
