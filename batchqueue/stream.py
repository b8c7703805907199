"""Stream: items into a batch, in chunks, each told what became of it. Memory stays flat however long it is."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import attrs

from batchqueue.errors import BatchClosed, IndexOutOfRange, UnknownBatch
from fairqueue.durations import whole
from fairqueue.errors import FairQueueError, InvalidArgument
from fairqueue.message import CALL_ID_BYTES, pack_body

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from batchqueue.ledger import BatchName, Ledger
    from fairqueue.payload import Codec

MAX_ITEMS = 10_000_000
CHUNK = 500  # items a script
CHUNK_BYTES = 1_048_576
KEPT = 1000  # refusals that a result carries


@attrs.frozen(kw_only=True)
class Refusal:
    """An item that did not go in, and why."""

    index: int
    error: FairQueueError


@attrs.frozen(kw_only=True)
class StreamResult:
    """What became of a stream: items in now, items that were in already, and the first 1,000 that were refused."""

    enqueued: int
    deduplicated: int
    refused: list[Refusal] = attrs.field(factory=list)
    #: All that were refused.
    refused_count: int = 0


def check_index(index: object) -> int:
    """An index as a user gives it.

    Raises:
        InvalidArgument: not a whole number from 0 to 9,999,999.
    """
    return whole("index", index, minimum=0, maximum=MAX_ITEMS - 1, error=InvalidArgument)


def fresh_call() -> bytes:
    """An id for one call: what it has put in is known again when it is sent twice."""
    return secrets.token_bytes(CALL_ID_BYTES)


@attrs.frozen
class Stream:
    """Sends items of one batch."""

    name: BatchName
    ledger: Ledger
    codec: Codec

    def body(self, index: int, payload: Any, call_id: bytes) -> bytes:
        """An item as stored.

        Raises:
            PayloadError: it cannot be.
        """
        what = f"payload of item {index} (batch {self.name.batch_id!r}, tenant {self.name.tenant_id!r})"
        return pack_body(call_id, self.codec.encode(payload, what), {"gen": self.name.gen})

    def put(self, items: Sequence[tuple[int, bytes]], call_id: bytes) -> list[bool | FairQueueError]:
        """One script: for each item True it is in now, False it was, or why it is refused.

        Raises:
            UnknownBatch: there is no such batch.
            Unavailable, OutcomeUnknown: the server did not answer; putting them again is safe.
        """
        reply = self.ledger.add(self.name, call_id, items)
        if reply is None:
            raise unknown(self.name)
        status, answers = reply
        return [
            answer == 1 if answer >= 0 else self._refusal(index, answer, status)
            for (index, _), answer in zip(items, answers, strict=True)
        ]

    def run(
        self, payloads: Iterable[Any], at: int, skip: int, on_refused: Callable[[int, FairQueueError], object] | None
    ) -> tuple[StreamResult, int]:
        """Send a whole stream whose first item has the index *at*; those below *skip* are in. Also the next index."""
        tally = _Tally(on_refused)
        chunk: list[tuple[int, bytes]] = []
        call_id, size = fresh_call(), 0
        for index, payload in enumerate(payloads, at):
            at = index + 1
            if index < skip:
                tally.deduplicated += 1
                continue
            try:
                chunk.append((check_index(index), self.body(index, payload, call_id)))
            except FairQueueError as error:
                tally.refuse(index, error)
                continue
            size += len(chunk[-1][1])
            if len(chunk) >= CHUNK or size >= CHUNK_BYTES:
                tally.note(chunk, self.put(chunk, call_id))
                chunk, size = [], 0
        if chunk:
            tally.note(chunk, self.put(chunk, call_id))
        return tally.result(), at

    def _refusal(self, index: int, answer: int, status: str) -> FairQueueError:
        where = f"batch {self.name.batch_id!r} of tenant {self.name.tenant_id!r}"
        ids = {"tenant_id": self.name.tenant_id, "batch_id": self.name.batch_id}
        if answer == -2:  # noqa: PLR2004 - see add_items.lua
            return IndexOutOfRange(f"index {index} is not below the item count of {where}", index=index, **ids)
        text = f"{where} is {status} and takes no more items: item {index} was refused"
        return BatchClosed(text, status=status, **ids)


class _Tally:
    """Counts what became of a stream's items."""

    def __init__(self, on_refused: Callable[[int, FairQueueError], object] | None) -> None:
        self.enqueued = self.deduplicated = self.refused_count = 0
        self.refused: list[Refusal] = []
        self._on_refused = on_refused

    def note(self, items: Sequence[tuple[int, bytes]], outcomes: Sequence[bool | FairQueueError]) -> None:
        for (index, _), outcome in zip(items, outcomes, strict=True):
            if isinstance(outcome, FairQueueError):
                self.refuse(index, outcome)
            elif outcome:
                self.enqueued += 1
            else:
                self.deduplicated += 1

    def refuse(self, index: int, error: FairQueueError) -> None:
        self.refused_count += 1
        if len(self.refused) < KEPT:
            self.refused.append(Refusal(index=index, error=error))
        if self._on_refused is not None:
            self._on_refused(index, error)

    def result(self) -> StreamResult:
        return StreamResult(
            enqueued=self.enqueued,
            deduplicated=self.deduplicated,
            refused=self.refused,
            refused_count=self.refused_count,
        )


def unknown(name: BatchName) -> UnknownBatch:
    """The error for a batch that is not there."""
    text = (
        f"there is no batch {name.batch_id!r} of tenant {name.tenant_id!r}: it was never initialized, its retention "
        "is over, or another one was made under its name since"
    )
    return UnknownBatch(text, tenant_id=name.tenant_id, batch_id=name.batch_id)
