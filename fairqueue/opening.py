"""Opening a shard: checked once a process that it was made with the settings of this queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairqueue.errors import SchemaMismatch

if TYPE_CHECKING:
    from fairqueue.keys import Keys
    from fairqueue.scripts import Scripts

SCHEMA = 1


class Opening:
    """Knows which shards this process may use."""

    def __init__(self, keys: Keys, scripts: Scripts, shard_count: int, owner: str) -> None:
        """Check nothing yet."""
        self._keys = keys
        self._scripts = scripts
        self._wanted = (SCHEMA, shard_count, owner)
        self._checked: set[int] = set()

    def __call__(self, shard: int) -> int:
        """Return *shard* when it may be used.

        Raises:
            SchemaMismatch: it was made with other settings; the text names the way out.
        """
        if shard not in self._checked:
            self._check(0)  # tells a wrong shard count even when *shard* is new
            self._check(shard)
            self._checked |= {0, shard}
        return shard

    def _check(self, shard: int) -> None:
        schema, shards, owner = self._wanted
        reply = self._scripts.call("open", self._keys.root(shard), schema=schema, shards=shards, owner=owner)
        found = (int(reply[0]), int(reply[1]), reply[2].decode())
        if found != self._wanted:
            raise SchemaMismatch(
                f"namespace {self._keys.namespace!r} was made with schema {found[0]}, shard_count {found[1]} by "
                f"{found[2]!r}, and is opened with schema {schema}, shard_count {shards} by {owner!r}: "
                "open it with its own settings, or drain it and use another namespace"
            )
