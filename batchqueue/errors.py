"""What batchqueue raises, and the signal an item callback may raise."""

from __future__ import annotations

from fairqueue.errors import FairQueueError, InvalidArgument


class BatchError(FairQueueError):
    """Something about a batch is wrong."""

    tenant_id: str | None = None
    batch_id: str | None = None


class BatchConflict(BatchError):
    """The batch is there with other parameters. Nothing was changed."""


class UnknownBatch(BatchError):
    """No such batch: it was never initialized, or its retention is over."""


class BatchClosed(BatchError):
    """The batch takes no more items, or has ended. Nothing was changed."""

    #: Its state.
    status: str | None = None


class IndexOutOfRange(BatchError, InvalidArgument):
    """The index is not below the batch's item count. Nothing was written."""

    index: int | None = None
    item_count: int | None = None


class ItemFailed(Exception):  # a signal, not an error
    """Raised by an item callback: this item failed.

    Args:
        error: what happened, kept with the failure.
        code: a short code, kept too; None: ``ITEM_FAILED``.
        skip_retries: no more attempts.
    """

    def __init__(self, error: str, code: str | None = None, skip_retries: bool = False) -> None:  # noqa: FBT001, FBT002 - design.md names it so
        """Keep all three."""
        super().__init__(error)
        self.error = str(error)
        self.code = "ITEM_FAILED" if code is None else str(code)
        self.skip_retries = bool(skip_retries)
