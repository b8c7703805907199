"""Settings and figures of a shard: limits, weights, counters, queue lengths, one message's whereabouts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from fairqueue.ids import quote
from fairqueue.keys import Keys, group_key, message_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fairqueue.scripts import Scripts

CHUNK = 500
SETTINGS = {"schema", "shards", "seq"}  # of a shard's root hash; all else in it that is a number is a counter
ENDS = ("completed", "discarded", "dead", "cancelled", "expired", "dropped")
COUNTERS = (
    "enqueued", "dispatched", "retried", "released", "handed_back", "given_back", "reclaimed", "redriven", "purged",
    "evicted", *ENDS,
)  # fmt: skip
STREAMS = 500  # read in one call of a listing
ROWS = 2000  # of messages, over all streams read in one call


@attrs.frozen
class State:
    """Reads and small settings of one namespace."""

    keys: Keys
    scripts: Scripts

    def _read(self, shard: int, *command: str | int) -> Any:
        return self.scripts.connection.call(self.keys.root(shard), lambda _: command, repeatable=True)

    def usage(self, shard: int, name: str, group_id: str | tuple[str, ...]) -> tuple[int, int | None, int | None]:
        """Slots in use, the limit set at run time and what a callable said (-1: unlimited, None: not set)."""
        group = group_key(name, group_id)
        fields = (group, group + "#", group + "?")
        used, limit, said = self._read(shard, "HMGET", self.keys.part(shard, "groups"), *fields)
        return int(used or 0), None if limit is None else int(limit), None if said is None else int(said)

    def set_limit(self, shard: int, name: str, group_id: str | tuple[str, ...], limit: str) -> None:
        """'' back to the default, '-1' unlimited; wakes who may run now."""
        if self.scripts.call("set_limit", self.keys.root(shard), group=group_key(name, group_id), limit=limit):
            self.finish_raised_limits(shard)

    def finish_raised_limits(self, shard: int) -> None:
        """Go on waking those for whom a raised limit made room, also when its caller did not finish."""
        while self.scripts.call("admit", self.keys.root(shard), limit=CHUNK):
            pass

    def stale_limits(self, shard: int, ttl_ms: int, limit: int) -> tuple[list[str], float | None]:
        """Groups whose callable is to be asked again, the caller's for a second; and seconds until the next is."""
        due, *groups = self.scripts.call("stale_limits", self.keys.root(shard), ttl=ttl_ms, limit=limit)
        return [group.decode() for group in groups], None if due < 0 else due / 1000

    def renew_limits(self, shard: int, limits: Sequence[tuple[str, str]]) -> None:
        """What callables say now; wakes who may run."""
        self.scripts.call("renew_limits", self.keys.root(shard), [part for limit in limits for part in limit])

    def pause(self, shard: int, tenant_id: str, queue_id: str | None = None) -> None:
        """Nothing of it starts any more; what was dispatched goes back."""
        what = _paused_field(tenant_id, queue_id)
        while self.scripts.call("pause", self.keys.root(shard), what=what, limit=CHUNK) == CHUNK:
            pass

    def resume(self, shard: int, tenant_id: str, queue_id: str | None = None) -> None:
        """The end of a pause; twice is harmless."""
        if self.scripts.call("resume", self.keys.root(shard), what=_paused_field(tenant_id, queue_id), limit=CHUNK):
            self.finish_resumes(shard)

    def finish_resumes(self, shard: int) -> None:
        """Go on with resumes that their callers did not finish."""
        while self.scripts.call("resume", self.keys.root(shard), what="", limit=CHUNK):
            pass

    def paused(self, shard: int, tenant_id: str, queue_id: str | None = None) -> bool:
        """Whether the tenant is paused, or the queue by itself."""
        key = self.keys.part(shard, "paused")
        return bool(self._read(shard, "HEXISTS", key, _paused_field(tenant_id, queue_id)))

    def set_weight(self, shard: int, tenant_id: str, weight: float | None) -> None:
        """A tenant's weight from now on; None: back to 1."""
        key = self.keys.part(shard, "weights")
        if weight is None or weight == 1:
            self._read(shard, "HDEL", key, quote(tenant_id))
        else:
            self._read(shard, "HSET", key, quote(tenant_id), repr(float(weight)))

    def weight(self, shard: int, tenant_id: str) -> float:
        """A tenant's weight."""
        return float(self._read(shard, "HGET", self.keys.part(shard, "weights"), quote(tenant_id)) or 1)

    def stats(self, shard: int) -> dict[str, int]:
        """The shard's counters since it was made, and how many messages are where now."""
        leases, ahead, *flat = self.scripts.call("figures", self.keys.root(shard))
        fields = {k.decode(): v for k, v in zip(flat[::2], flat[1::2], strict=True)}
        counted = {k: int(v) for k, v in fields.items() if v.isdigit() and ":" not in k and k not in SETTINGS}
        total = {**dict.fromkeys(COUNTERS, 0), **counted}
        living = total["enqueued"] + total["redriven"] - sum(total[end] for end in ENDS)
        return {
            **total,
            "waiting": living - leases - ahead,
            "in_worker_queues": ahead,
            "in_flight": leases,
            "dead_letters": total["dead"] - total["redriven"] - total["purged"] - total["evicted"],
        }

    def in_flight(self, shard: int) -> int:
        """Leases held now."""
        return int(self._read(shard, "ZCARD", self.keys.part(shard, "leases")))

    def length(self, shard: int, tenant_id: str, queue_id: str) -> int:
        """Messages of a queue that wait, delayed ones included."""
        start, upto = _bounds(f"{quote(tenant_id)}/{quote(queue_id)}/")
        return sum(page[0] for page in self._pages("queue_length", shard, start, upto, limit=STREAMS))

    def queues(self, shard: int, tenant_id: str | None, after: str, limit: int) -> list[tuple[str, int, float, bool]]:
        """Name (tenant/queue, encoded), messages, oldest order time and whether paused, of queues with messages."""
        start, upto = ("-", "+") if tenant_id is None else _bounds(quote(tenant_id) + "/")
        if after:
            start = f"[{after}0"
        found: list[tuple[str, int, float, bool]] = []
        for rows in self._pages("list_queues", shard, start, upto, limit=min(STREAMS, limit + 1)):
            for i in range(0, len(rows), 4):
                name, n, oldest, paused = rows[i].decode(), rows[i + 1], float(rows[i + 2]), rows[i + 3] == 1
                if found and found[-1][0] == name:  # its streams went over two pages
                    found[-1] = name, found[-1][1] + n, min(found[-1][2], oldest), paused
                else:
                    found.append((name, n, oldest, paused))
            if len(found) > limit:
                break
        return found[:limit]

    def tenants(self, shard: int, after: str, limit: int) -> list[str]:
        """Tenants with messages that wait, encoded, by name."""
        return [
            name.decode() for name in self.scripts.call("list_tenants", self.keys.root(shard), after=after, limit=limit)
        ]

    def messages(
        self, shard: int, tenant_id: str, queue_id: str, after: tuple[str, str], limit: int
    ) -> tuple[list[tuple[str, str, bytes]], tuple[str, str] | None]:
        """State, key and record of a queue's messages in their order, behind *after*; the last one's place."""
        prefix = f"{quote(tenant_id)}/{quote(queue_id)}/"
        start, upto = _bounds(prefix)
        rows: list[tuple[float, bytes, bytes, bytes]] = []
        streams = max(1, ROWS // limit)
        for page in self._pages(
            "list_messages", shard, start, upto, streams=streams, order=after[0], member=after[1], limit=limit
        ):
            rows += [(float(page[i]), page[i + 1], page[i], page[i + 2]) for i in range(0, len(page), 3)]
            rows = sorted(rows)[:limit]
        if not rows:
            return [], None
        keys = [prefix + member[12:].decode() for _, member, _, _ in rows]
        records = self._read(shard, "HMGET", self.keys.part(shard, "messages"), *keys)
        found = [
            (row[3].decode(), key, record)
            for row, key, record in zip(rows, keys, records, strict=True)
            if record is not None  # it ended between the two calls
        ]
        return found, (rows[-1][2].decode(), rows[-1][1].decode()) if len(rows) == limit else None

    def purge(self, shard: int, prefix: str) -> int:
        """End every message that waits under a prefix; how many."""
        total = 0
        while True:
            gone: int = self.scripts.call("purge_queue", self.keys.root(shard), prefix=prefix, limit=CHUNK)
            total += gone
            if gone < CHUNK:
                return total

    def cancel(self, shard: int, tenant_id: str, queue_id: str, message_id: str) -> bool:
        """End a message that nobody has taken."""
        key = message_key(tenant_id, queue_id, message_id)
        return bool(self.scripts.call("cancel", self.keys.root(shard), key=key))

    def holders(self, shard: int, name: str, group_id: str | tuple[str, ...]) -> list[str]:
        """Keys of the messages that hold a slot."""
        root, group = self.keys.root(shard), group_key(name, group_id)
        found: dict[str, None] = {}
        for pool in ["", *(name.decode() for name in self.scripts.call("pools", root))]:
            cursor = "0"
            while True:
                reply = self.scripts.call("holders", root, group=group, pool=pool, cursor=cursor, limit=CHUNK)
                found |= dict.fromkeys(key.decode() for key in reply[1:])
                cursor = reply[0].decode()
                if cursor == "0":
                    break
        return list(found)

    def blocking(self, shard: int, tenant_id: str, queue_id: str) -> list[str]:
        """Full groups that hold a queue back, encoded."""
        start, upto = _bounds(f"{quote(tenant_id)}/{quote(queue_id)}/")
        pages = self._pages("blocking", shard, start, upto, limit=STREAMS)
        return list(dict.fromkeys(group.decode() for page in pages for group in page))

    def _pages(self, script: str, shard: int, start: str, upto: str, **args: Any) -> Iterator[Any]:
        """Replies of a script that reads a bounded number of streams a call and says where to go on."""
        while True:
            last, *rest = self.scripts.call(script, self.keys.root(shard), start=start, upto=upto, **args)
            yield rest
            if not last:
                return
            start = "(" + last.decode()

    def leases(self, shard: int, after: int, limit: int) -> list[Any]:
        """Key, deadline, token, attempt, deliveries, since, worker of deliveries under way."""
        reply: list[Any] = self.scripts.call("list_leases", self.keys.root(shard), after=after, limit=limit)
        return reply

    def whereabouts(self, shard: int, tenant_id: str, queue_id: str, message_id: str) -> list[Any]:
        """State, record and deadline of a message; empty when it does not live."""
        reply: list[Any] = self.scripts.call(
            "find", self.keys.root(shard), key=message_key(tenant_id, queue_id, message_id)
        )
        return reply


def _paused_field(tenant_id: str, queue_id: str | None) -> str:
    return quote(tenant_id) if queue_id is None else f"{quote(tenant_id)}/{quote(queue_id)}"


def _bounds(prefix: str) -> tuple[str, str]:
    """The range of stream names that begin with *prefix*, which ends with a slash: '0' follows it in bytes."""
    return "[" + prefix, "(" + prefix[:-1] + "0"
