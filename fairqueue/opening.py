"""Opening a shard: once a process it is checked that server and shard fit this queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairqueue.errors import OutcomeUnknown, SchemaMismatch, Unavailable
from fairqueue.server_check import check_rights, check_server

if TYPE_CHECKING:
    from fairqueue.keys import Keys
    from fairqueue.scripts import Scripts

SCHEMA = 1


class Opening:
    """Knows which shards this process may use."""

    def __init__(self, keys: Keys, scripts: Scripts, shard_count: int, owner: str, *, allow_eviction: bool) -> None:
        """Check nothing yet."""
        self._keys = keys
        self._scripts = scripts
        self._wanted = (SCHEMA, shard_count, owner)
        self._allow_eviction = allow_eviction
        self._checked: set[int] = set()

    def __call__(self, shard: int) -> int:
        """Return *shard* when it may be used.

        Raises:
            SchemaMismatch: it was made with other settings; the text names the way out.
            UnsupportedServer, AccessDenied, Unavailable: see `fairqueue.server_check`.
        """
        if shard not in self._checked:
            try:
                for one in sorted({0, shard} - self._checked):  # 0 tells a wrong shard count even when *shard* is new
                    self._check_server(one)
                    self._check(one)
                    self._checked.add(one)
            except OutcomeUnknown as error:  # of the check: what it was for was not sent
                raise Unavailable(f"the server could not be checked, nothing was accepted: {error}") from error
        return shard

    def _check_server(self, shard: int) -> None:
        root = self._keys.root(shard)
        if not self._checked or self._scripts.connection.nodes.cluster:  # a shard may be elsewhere
            check_server(self._scripts, root, allow_eviction=self._allow_eviction)
            check_rights(self._scripts, root, self._keys.channel("x"))

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
