"""What callbacks are given: an item to process, or a batch that ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime


@attrs.frozen(kw_only=True)
class BatchItem:
    """An item in the hands of one worker. (batch id, index) is its name for idempotent work.

    *batch* is the batch's metadata. *attempt* counts failures + 1; on *is_final_attempt* a failure is for good.
    """

    tenant_id: str
    batch_id: str
    index: int
    payload: Any = attrs.field(repr=False)
    attempt: int
    is_final_attempt: bool
    batch: dict[str, Any] = attrs.field(repr=False)
    #: Sets the lease out; True while the item is still this worker's.
    heartbeat: Callable[[], bool] = attrs.field(repr=False)


@attrs.frozen
class ItemResult:
    """What an item's callback returned; unpacks into index and value, so ``dict(results)`` is a table."""

    index: int
    value: Any

    def __iter__(self) -> Iterator[Any]:
        """Index, then value."""
        return iter((self.index, self.value))


@attrs.frozen(kw_only=True)
class BatchFailure:
    """An item that failed for good. *reason*: why it was not tried again."""

    index: int
    error: str = attrs.field(repr=False)
    code: str
    attempts: int
    reason: str
    payload: Any = attrs.field(repr=False)
    at: datetime


@attrs.frozen(kw_only=True)
class BatchResult:
    """A batch that ended, for its completion callback. The same *completion_id* may come more than once.

    *status*: completed, completed_with_failures, cancelled or incomplete.
    """

    tenant_id: str
    batch_id: str
    completion_id: str
    status: str
    item_count: int
    succeeded: int
    failed: int
    cancelled: int
    metadata: dict[str, Any] = attrs.field(repr=False)
    attempt: int
    _results: Callable[[], Iterator[ItemResult]] = attrs.field(repr=False)
    _failures: Callable[[], Iterator[BatchFailure]] = attrs.field(repr=False)
    _missing: Callable[[], Iterator[int]] = attrs.field(repr=False)

    def results(self) -> Iterator[ItemResult]:
        """(index, value) of every item that succeeded, by index, read a page at a time."""
        return self._results()

    def failures(self) -> Iterator[BatchFailure]:
        """Every item that failed for good, by index, read a page at a time."""
        return self._failures()

    def missing(self) -> Iterator[int]:
        """Indexes that never came in."""
        return self._missing()
