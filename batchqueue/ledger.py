"""Ledger: what is kept of batches. One method a script; no policy."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Literal

import attrs

from batchqueue.keys import BATCH_GROUP, TENANT_GROUP, batch_key, split_batch_key
from batchqueue.record import FIELDS, BatchInfo, BatchRecord, progress_of, read_record
from fairqueue.ids import quote
from fairqueue.keys import group_key, stream_name
from fairqueue.message import moment, unpack_body

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from fairqueue.connection import Argument
    from fairqueue.keys import Keys
    from fairqueue.scripts import Scripts

WORKER_QUEUE = "default"
CHUNK = 500
_FAILURE = struct.Struct(">dHHHHH")


@attrs.frozen(kw_only=True)
class BatchName:
    """Where a batch is and which one of that name: *gen* tells it from an earlier one."""

    tenant_id: str
    batch_id: str
    shard: int
    gen: str
    groups: tuple[tuple[str, ...], tuple[str, ...]]

    @property
    def key(self) -> str:
        """Its name within the shard."""
        return batch_key(self.tenant_id, self.batch_id)

    @property
    def stream(self) -> str:
        """The stream of its items."""
        tenant, batch = self.groups
        groups = (group_key(TENANT_GROUP, tenant), group_key(BATCH_GROUP, batch))
        return stream_name(self.tenant_id, self.batch_id, WORKER_QUEUE, 0, groups)


@attrs.frozen(kw_only=True)
class StoredFailure:
    """A failure as kept: *payload* is the encoded one."""

    index: int
    at: datetime
    attempts: int
    deliveries: int
    code: str
    reason: str
    error: str = attrs.field(repr=False)
    payload: bytes = attrs.field(repr=False)


@attrs.frozen
class Ledger:
    """Batches of one namespace."""

    keys: Keys
    scripts: Scripts

    def _call(self, shard: int, script: str, rest: Sequence[Argument] = (), **args: Argument) -> Any:
        return self.scripts.call(f"batchqueue/{script}", self.keys.root(shard), rest, repeatable=True, **args)

    def initialize(
        self,
        name: BatchName,
        *,
        count: int | None,
        metadata: bytes,
        concurrency: int | None,
        fill_ms: int | None,
        idempotency_key: str | None,
        fingerprint: str,
    ) -> tuple[Literal["made", "same", "other"], BatchRecord]:
        """Make a batch or find it: which, and the record of the batch that is there."""
        verdict, key, row = self._call(
            name.shard,
            "initialize",
            FIELDS,
            key=name.key,
            gen=name.gen,
            count="" if count is None else count,
            metadata=metadata,
            concurrency="" if concurrency is None else concurrency,
            group=group_key(BATCH_GROUP, name.groups[1]),
            fill="" if fill_ms is None else fill_ms,
            idem="" if idempotency_key is None else batch_key(name.tenant_id, idempotency_key),
            print=fingerprint,
        )
        record = read_record(name.tenant_id, split_batch_key(key.decode())[1], row)
        assert record is not None  # noqa: S101 - it is there: the script has just seen it
        return verdict.decode(), record

    def read(self, shard: int, tenant_id: str, batch_id: str) -> BatchRecord | None:
        """The record of a batch; None when there is none."""
        command = ("HMGET", self.keys.part(shard, "batch:" + batch_key(tenant_id, batch_id)), *FIELDS)
        row = self.scripts.connection.call(self.keys.root(shard), lambda _: command, repeatable=True)
        return read_record(tenant_id, batch_id, row)

    def add(self, name: BatchName, call_id: bytes, items: Sequence[tuple[int, bytes]]) -> tuple[str, list[int]] | None:
        """Put items in: the state, and for each 1 in now, 0 in already, -1 refused, -2 beyond; None: no such batch."""
        flat = [part for item in items for part in item]
        reply = self._call(
            name.shard, "add_items", flat, key=name.key, gen=name.gen, call_id=call_id, stream=name.stream
        )
        return None if reply[0] == b"unknown" else (reply[0].decode(), reply[1:])

    def first_missing(self, name: BatchName) -> int:
        """The lowest index that is not in."""
        command = ("BITPOS", self.keys.part(name.shard, "items:" + name.key), 0)
        return int(self.scripts.connection.call(self.keys.root(name.shard), lambda _: command, repeatable=True))

    def missing(self, name: BatchName, *, after: int, below: int, limit: int) -> list[int]:
        """Indexes that are not in."""
        reply: list[int] = self._call(name.shard, "list_missing", key=name.key, after=after, below=below, limit=limit)
        return reply

    def seal(self, name: BatchName, count: int | None) -> tuple[str, str, int]:
        """Say how many there are: what came of it (see seal.lua), the count and the items in."""
        verdict, known, n = self._call(
            name.shard, "seal", key=name.key, gen=name.gen, count="" if count is None else count
        )
        return verdict.decode(), known.decode(), n

    def cancel(self, name: BatchName) -> int:
        """No item starts any more: 1; 0 it had ended, -1 no such batch."""
        return int(self._call(name.shard, "cancel_batch", key=name.key, gen=name.gen))

    def redrive(self, name: BatchName) -> int:
        """Take failures back: how many; -1 no such batch, -2 its callback is due, -3 cancelled."""
        return int(self._call(name.shard, "redrive_failures", key=name.key, gen=name.gen))

    def feed(self, name: BatchName) -> int:
        """Enqueue a chunk of what was taken back; how many."""
        return int(self._call(name.shard, "feed", key=name.key, stream=name.stream, limit=CHUNK))

    def retry_callback(self, name: BatchName) -> int:
        """Call again: 1; 0 the callback has not failed, -1 no such batch."""
        return int(self._call(name.shard, "retry_callback", key=name.key, gen=name.gen))

    def due(self, shard: int) -> tuple[int, list[tuple[str, str]]]:
        """What time brings: batches looked at, and (purge or feed, batch) of those left half way."""
        n, *left = self._call(shard, "due_batches", limit=100)
        return n, [(left[i].decode(), left[i + 1].decode()) for i in range(0, len(left), 2)]

    def audit(self, shard: int) -> list[tuple[str, str]]:
        """Batches whose figures do not agree with what is kept, and what is wrong."""
        found: list[tuple[str, str]] = []
        after = ""
        while True:
            last, *rows = (part.decode() for part in self._call(shard, "audit_batches", after=after, limit=100))
            found += zip(rows[::2], rows[1::2], strict=True)
            if not last:
                return found
            after = last

    def batches(self, shard: int, tenant_id: str | None, after: str, limit: int) -> list[tuple[str, BatchInfo | None]]:
        """Batches by name, each with its key; None for one whose record has just gone."""
        prefix = "" if tenant_id is None else quote(tenant_id) + "/"
        reply = self._call(shard, "list_batches", prefix=prefix, after=after, limit=limit)
        return [_info(*reply[i : i + 8]) for i in range(0, len(reply), 8)]

    def results(self, name: BatchName, *, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Index and stored result of items that succeeded, by index."""
        reply = self._call(name.shard, "list_results", key=name.key, after=after, limit=limit)
        return [(reply[i], reply[i + 1]) for i in range(0, len(reply), 2)]

    def failures(self, name: BatchName, *, after: int, limit: int) -> list[StoredFailure]:
        """Items that failed for good, by index."""
        reply = self._call(name.shard, "list_failures", key=name.key, after=after, limit=limit)
        return [_failure(int(reply[i]), reply[i + 1]) for i in range(0, len(reply), 2) if reply[i + 1] is not None]


def _info(key: bytes, state: bytes, count: bytes, *rest: bytes) -> tuple[str, BatchInfo | None]:
    if not state:
        return key.decode(), None
    tenant_id, batch_id = split_batch_key(key.decode())
    enqueued, succeeded, failed, cancelled, created = (int(value or 0) for value in rest)
    progress = progress_of(state.decode(), count.decode(), enqueued, succeeded, failed, cancelled)
    return key.decode(), BatchInfo(
        tenant_id=tenant_id,
        batch_id=batch_id,
        status=progress.status,
        progress=progress,
        created_at=moment(created),
    )


def _failure(index: int, raw: bytes) -> StoredFailure:
    at, attempts, deliveries, n_kind, n_reason, n_text = _FAILURE.unpack_from(raw)
    parts, start = [], _FAILURE.size
    for n in (n_kind, n_reason, n_text):
        parts.append(raw[start : start + n].decode("utf-8", "replace"))
        start += n
    try:
        payload, _ = unpack_body(raw[start:])
    except ValueError:
        payload = raw[start:]
    return StoredFailure(
        index=index,
        at=moment(at),
        attempts=attempts,
        deliveries=deliveries,
        code=parts[0],
        reason=parts[1],
        error=parts[2],
        payload=payload,
    )
