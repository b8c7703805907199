"""Batches on fairqueue: items stream in, each is processed, and the last one's end calls back."""

from __future__ import annotations

from batchqueue.batch import Batch
from batchqueue.batch_queue import BatchQueue
from batchqueue.errors import BatchClosed, BatchConflict, BatchError, IndexOutOfRange, ItemFailed, UnknownBatch
from batchqueue.item import BatchFailure, BatchItem, BatchResult, ItemResult
from batchqueue.options import BatchQueueOptions
from batchqueue.record import BatchInfo, BatchProgress
from batchqueue.stream import Refusal, StreamResult

__all__ = [
    "Batch",
    "BatchClosed",
    "BatchConflict",
    "BatchError",
    "BatchFailure",
    "BatchInfo",
    "BatchItem",
    "BatchProgress",
    "BatchQueue",
    "BatchQueueOptions",
    "BatchResult",
    "IndexOutOfRange",
    "ItemFailed",
    "ItemResult",
    "Refusal",
    "StreamResult",
    "UnknownBatch",
]
