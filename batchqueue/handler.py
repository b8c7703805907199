"""Handler: what a fairqueue Worker runs for batches: an item's callback, or a batch's."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import attrs

from batchqueue.batch import every
from batchqueue.errors import ItemFailed
from batchqueue.item import BatchItem, BatchResult
from batchqueue.keys import batch_of, is_callback
from fairqueue.errors import Bury, LeaseLost, PayloadError, Retry, describe
from fairqueue.payload import Codec
from fairqueue.retry import Dead, NoRetry, decide
from fairqueue.store.inflight import Settlement

if TYPE_CHECKING:
    from collections.abc import Callable

    from batchqueue.batch import Batch
    from batchqueue.options import BatchQueueOptions
    from batchqueue.record import BatchRecord
    from fairqueue.delivery import Delivery

UNEXPECTED = "UNEXPECTED_ERROR"
REMEMBERED = 1024  # batches whose metadata a process keeps


class Handler:
    """Runs callbacks, and turns what they return or raise into the settlement of their delivery."""

    def __init__(
        self,
        options: BatchQueueOptions,
        read: Callable[[str, str], BatchRecord | None],
        handle: Callable[[BatchRecord], Batch],
    ) -> None:
        """*read* finds a record, *handle* makes a Batch of it."""
        self.process: Callable[[BatchItem], Any] | None = None
        self.complete: Callable[[BatchResult], object] | None = None
        self._options = options
        self._read = read
        self._handle = handle
        self._results = Codec(max_bytes=options.max_result_bytes)
        self._known: OrderedDict[tuple[str, str, str], dict[str, Any]] = OrderedDict()

    def __call__(self, delivery: Delivery) -> None:
        """Run the callback of one delivery."""
        if is_callback(delivery.key):
            self._callback(delivery)
        else:
            self._item(delivery)

    def retry_of(self, message_key: str) -> Any:
        """The retry policy of a message."""
        return self._options.callback_retry if is_callback(message_key) else self._options.retry

    # -- items

    def _item(self, delivery: Delivery) -> None:
        tenant_id, batch_id = batch_of(delivery.key)
        item = BatchItem(
            tenant_id=tenant_id,
            batch_id=batch_id,
            index=int(delivery.id),
            payload=delivery.payload,
            attempt=delivery.attempt,
            is_final_attempt=self._is_final(delivery),
            batch=self._metadata(tenant_id, batch_id, str(delivery.metadata.get("gen"))),
            heartbeat=lambda: _beat(delivery),
        )
        assert self.process is not None  # noqa: S101 - start() refuses without one
        try:
            value = self.process(item)
        except (Retry, Bury):
            raise
        except ItemFailed as error:
            delivery.outcome = self._failure(delivery, error, error.code, error.error, final=error.skip_retries)
        except BaseException as error:  # noqa: BLE001 - whatever a callback raises is its item's failure
            kind, text = describe(error)
            delivery.outcome = self._failure(delivery, error, UNEXPECTED, f"{kind}: {text}" if text else kind)
        else:
            delivery.outcome = self._success(delivery, value)

    def _success(self, delivery: Delivery, value: Any) -> Settlement:
        if value is None:
            return Settlement(verb="complete", key=delivery.key, token=delivery.token)
        try:
            result = self._results.encode(value, "the result").decode()
        except PayloadError as error:
            return self._failure(delivery, error, "RESULT_ERROR", str(error), final=True)
        return Settlement(verb="complete", key=delivery.key, token=delivery.token, text=result)

    @staticmethod
    def _failure(delivery: Delivery, error: BaseException, code: str, text: str, *, final: bool = False) -> Settlement:
        _, text = describe(text)
        return attrs.evolve(delivery.failure(error, dead=final), kind=code[:200], text=text)

    def _is_final(self, delivery: Delivery) -> bool:
        verdict = decide(
            self._options.retry or NoRetry(),
            attempt=delivery.attempt,
            deliveries=delivery.deliveries,
            max_deliveries=self._options.max_deliveries,
            error=None,
        )
        return isinstance(verdict, Dead)

    def _metadata(self, tenant_id: str, batch_id: str, gen: str) -> dict[str, Any]:
        place = (tenant_id, batch_id, gen)
        metadata = self._known.get(place)
        if metadata is None:
            record = self._read(tenant_id, batch_id)
            metadata = record.metadata if record is not None and record.gen == gen else {}
            self._known[place] = metadata
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return dict(metadata)

    # -- the end of a batch

    def _callback(self, delivery: Delivery) -> None:
        record = self._read(*batch_of(delivery.key))
        if self.complete is None or record is None:
            return
        batch, progress = self._handle(record), record.progress
        status = record.outcome
        if status == "sealed":
            status = "completed_with_failures" if progress.failed else "completed"
        self.complete(
            BatchResult(
                tenant_id=record.tenant_id,
                batch_id=record.batch_id,
                completion_id=record.completion_id,
                status=status,
                item_count=progress.enqueued if progress.item_count is None else progress.item_count,
                succeeded=progress.succeeded,
                failed=progress.failed,
                cancelled=progress.cancelled,
                metadata=record.metadata,
                attempt=delivery.attempt,
                results=lambda: every(lambda cursor: batch.results(limit=500, cursor=cursor)),
                failures=lambda: every(lambda cursor: batch.failures(limit=500, cursor=cursor)),
                missing=lambda: every(lambda cursor: batch.missing(limit=500, cursor=cursor)),
            )
        )


def _beat(delivery: Delivery) -> bool:
    try:
        delivery.heartbeat()
    except LeaseLost:
        return False
    return True
