"""Intake: adding messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairqueue.connection import Argument
    from fairqueue.keys import Keys
    from fairqueue.scripts import Scripts


@attrs.frozen(kw_only=True)
class Entry:
    """A message ready to be stored: everything about it is resolved and encoded."""

    stream: str
    id: str  # percent-encoded
    due: str
    body: bytes = attrs.field(repr=False)
    limits: tuple[tuple[str, str, int], ...] = ()  # group, what its callable said, how many ms ago


@attrs.frozen
class Intake:
    """Adds messages to the shards of one namespace."""

    keys: Keys
    scripts: Scripts

    def add(self, shard: int, call_id: bytes, entries: Sequence[Entry]) -> list[bool]:
        """Add them in one script; False where the id was there already."""
        streams: dict[str, int] = {}
        flat: list[Argument] = []
        for entry in entries:
            flat += (streams.setdefault(entry.stream, len(streams) + 1), entry.id, entry.due, entry.body)
        rest = [len(streams), *streams, *flat]
        said = {limit[0]: limit for entry in entries for limit in entry.limits}
        limits = msgspec.msgpack.encode([part for limit in said.values() for part in limit]) if said else b""
        reply = self.scripts.call(
            "enqueue", self.keys.root(shard), rest, repeatable=False, call_id=call_id, limits=limits
        )
        return [created == 1 for created in reply]
