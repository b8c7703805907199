"""Batch: the handle of one batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import msgspec

from batchqueue.errors import BatchClosed, BatchConflict
from batchqueue.item import BatchFailure, ItemResult
from batchqueue.ledger import CHUNK
from batchqueue.stream import MAX_ITEMS, Stream, StreamResult, check_index, fresh_call, unknown
from fairqueue.durations import whole
from fairqueue.errors import InvalidArgument, PayloadError
from fairqueue.views.page import Page, page_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from batchqueue.ledger import BatchName, Ledger
    from batchqueue.record import BatchProgress, BatchRecord
    from fairqueue.errors import FairQueueError
    from fairqueue.payload import Codec


class Batch:
    """One batch, made by `BatchQueue.initialize` or found by `BatchQueue.get`.

    ``with`` seals it when the block ends without an exception.
    """

    def __init__(  # noqa: D107 - made by BatchQueue
        self,
        name: BatchName,
        record: BatchRecord,
        ledger: Ledger,
        codec: Codec,
        purge: Callable[[str, str], int],
        next_index: int | None,
    ) -> None:
        self.name = name
        self.tenant_id = name.tenant_id
        self.batch_id = name.batch_id
        self.created_at = record.created_at
        self._record = record
        self._ledger = ledger
        self._codec = codec
        self._purge = purge
        self._stream = Stream(name, ledger, codec)
        self._next = next_index

    def __repr__(self) -> str:
        """Ids only."""
        return f"<Batch {self.name.key}>"

    def __enter__(self) -> Self:
        """Fill it in the block."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Seal it, unless the block raised: then it stays open, to be filled by the next run."""
        if kind is None:
            self.seal()

    @property
    def metadata(self) -> dict[str, Any]:
        """As given to initialize."""
        return self._record.metadata

    # -- fill

    def add(self, index: int, payload: Any) -> bool:
        """Put one item in. False: that index is in already, and its first payload stays.

        Raises:
            InvalidArgument, PayloadError: refused before anything was written.
            IndexOutOfRange: not below the item count.
            BatchClosed: it takes no more. UnknownBatch: it is not there.
            Unavailable, OutcomeUnknown: the server did not answer; add again.
        """
        call_id = fresh_call()
        [outcome] = self._stream.put([(check_index(index), self._stream.body(index, payload, call_id))], call_id)
        if isinstance(outcome, bool):
            return outcome
        raise outcome

    def add_many(
        self,
        payloads: Iterable[Any],
        *,
        start: int | None = None,
        on_refused: Callable[[int, FairQueueError], object] | None = None,
    ) -> StreamResult:
        """Stream items in, in chunks; a bad one is refused alone.

        Args:
            payloads: any iterable; read once, never held whole.
            start: index of the first. None: on the handle that `initialize` gave, where the last call on it
                ended, from 0: a script that is run again skips what is in. On a handle that `get` gave: after the
                last index up to which all are in.
            on_refused: called with index and error of each that is refused.

        Raises:
            UnknownBatch: it is not there.
            Unavailable, OutcomeUnknown: the server did not answer; run it again.
        """
        at, skip = self._place(start)
        result, self._next = self._stream.run(payloads, at, skip, on_refused)
        return result

    def _place(self, start: int | None) -> tuple[int, int]:
        if start is not None:
            return check_index(start), 0
        there = self._ledger.first_missing(self.name)
        return (there if self._next is None else self._next), there

    def next_index(self) -> int:
        """The lowest index that is not in: where a stream goes on."""
        return self._ledger.first_missing(self.name)

    def missing(self, *, limit: int = 100, cursor: str | None = None) -> Page[int]:
        """Indexes below the item count that are not in."""
        page_size(limit)
        progress = self.progress()
        below = progress.enqueued if progress.item_count is None else progress.item_count
        found = self._ledger.missing(self.name, after=_after(cursor), below=below, limit=limit)
        return Page(found, str(found[-1]) if len(found) == limit else None)

    def seal(self, item_count: int | None = None) -> None:
        """No more items will come: as many as are in, or *item_count*, the rest of which may still come.

        Raises:
            InvalidArgument: not a count.
            BatchConflict: fewer are in than were declared, or another count was.
            BatchClosed: it is cancelled or incomplete. UnknownBatch: it is not there.
        """
        if item_count is not None:
            check_count(item_count)
        verdict, count, n = self._ledger.seal(self.name, item_count)
        if verdict == "unknown":
            raise unknown(self.name)
        where = f"batch {self.batch_id!r} of tenant {self.tenant_id!r}"
        ids = {"tenant_id": self.tenant_id, "batch_id": self.batch_id}
        if verdict == "closed":
            raise BatchClosed(f"{where} is {self.progress().status}", **ids)
        if verdict == "short":
            raise BatchConflict(
                f"{where} was declared with {count} items and {n} are in, the first missing is {self.next_index()}: "
                "add the rest, or cancel it",
                **ids,
            )
        if verdict == "other":
            raise BatchConflict(
                f"{where} has {count or n} items ({n} are in): it cannot be sealed with {item_count}", **ids
            )

    # -- end

    def cancel(self) -> bool:
        """Take out what waits; what runs, or was handed to a worker queue, may end. False: it had ended already.

        Raises:
            UnknownBatch: it is not there.
        """
        answer = self._ledger.cancel(self.name)
        if answer < 0:
            raise unknown(self.name)
        if answer:
            self._purge(self.tenant_id, self.batch_id)
        return answer == 1

    def redrive_failures(self) -> int:
        """Run what failed again: it does not count as failed any more, and an ended batch lives again.

        When the last of them ends the callback is called again, under a new completion id.

        Raises:
            BatchClosed: its callback is due or runs, or it was cancelled. UnknownBatch: it is not there.
        """
        n = self._ledger.redrive(self.name)
        if n == -1:
            raise unknown(self.name)
        if n < 0:
            why = "its callback is due or runs, try again after it" if n == -2 else "it was cancelled"  # noqa: PLR2004
            text = f"failures of batch {self.batch_id!r} of tenant {self.tenant_id!r} cannot run again: {why}"
            raise BatchClosed(text, tenant_id=self.tenant_id, batch_id=self.batch_id, status=self.progress().status)
        while n and self._ledger.feed(self.name) == CHUNK:
            pass
        return n

    def retry_callback(self) -> bool:
        """Call the completion callback again, after it was given up on. False: it was not.

        Raises:
            UnknownBatch: it is not there.
        """
        answer = self._ledger.retry_callback(self.name)
        if answer < 0:
            raise unknown(self.name)
        return answer == 1

    # -- read

    def progress(self) -> BatchProgress:
        """How far it is; costs the same however large it is.

        Raises:
            UnknownBatch: it is not there.
        """
        record = self._ledger.read(self.name.shard, self.tenant_id, self.batch_id)
        if record is None or record.gen != self.name.gen:
            raise unknown(self.name)
        return record.progress

    def results(self, *, limit: int = 100, cursor: str | None = None) -> Page[ItemResult]:
        """Results of items that succeeded, by index."""
        page_size(limit)
        rows = self._ledger.results(self.name, after=_after(cursor), limit=limit)
        found = [ItemResult(index, msgspec.json.decode(raw) if raw else None) for index, raw in rows]
        return Page(found, str(found[-1].index) if len(found) == limit else None)

    def failures(self, *, limit: int = 100, cursor: str | None = None) -> Page[BatchFailure]:
        """Items that failed for good, by index."""
        page_size(limit)
        rows = self._ledger.failures(self.name, after=_after(cursor), limit=limit)
        found = [
            BatchFailure(
                index=row.index,
                error=row.error,
                code=row.code,
                attempts=row.attempts,
                reason=row.reason,
                payload=self._payload(row.payload),
                at=row.at,
            )
            for row in rows
        ]
        return Page(found, str(found[-1].index) if len(found) == limit else None)

    def _payload(self, raw: bytes) -> Any:
        try:
            return self._codec.decode(raw)
        except PayloadError:
            return None


def check_count(value: object) -> int:
    """An item count as a user gives it.

    Raises:
        InvalidArgument: not a whole number from 0 to 10,000,000.
    """
    return whole("item_count", value, minimum=0, maximum=MAX_ITEMS, error=InvalidArgument)


def every(read: Callable[[str | None], Page[Any]]) -> Iterator[Any]:
    """All items of a listing, a page at a time."""
    cursor = None
    while True:
        page = read(cursor)
        yield from page
        cursor = page.cursor
        if cursor is None:
            return


def _after(cursor: str | None) -> int:
    if cursor is None:
        return -1
    if not cursor.isdecimal():
        raise InvalidArgument(f"cursor={cursor!r} is none that a page gave")
    return int(cursor)
