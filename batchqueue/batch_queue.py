"""BatchQueue: the door of the library. Composes a FairQueue and a ledger, and delegates."""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Self, TypeVar

import msgspec

from batchqueue.batch import Batch, check_count
from batchqueue.errors import BatchConflict
from batchqueue.handler import Handler
from batchqueue.keys import groups_of, is_callback
from batchqueue.ledger import WORKER_QUEUE, BatchName, Ledger
from batchqueue.options import BatchQueueOptions
from batchqueue.sweep import Sweep
from fairqueue.client import connect
from fairqueue.durations import limit as check_limit
from fairqueue.durations import seconds, to_ms
from fairqueue.embedded import EmbeddedServer
from fairqueue.errors import ConfigurationError, InvalidArgument
from fairqueue.extension import Extension
from fairqueue.fair_queue import FairQueue
from fairqueue.ids import check_id, quote
from fairqueue.loops import Loop
from fairqueue.payload import Codec
from fairqueue.sweeper import Finding
from fairqueue.views.page import Page, paged
from fairqueue.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import timedelta
    from pathlib import Path

    import redis
    from redis.cluster import RedisCluster

    from batchqueue.item import BatchItem, BatchResult
    from batchqueue.record import BatchInfo, BatchRecord
    from fairqueue.clock import Clock
    from fairqueue.events import Hook

MAX_METADATA_BYTES = 65_536
_STRICT_BAND = 2**42  # ms: a callback goes before every item of its tenant
ProcessItem = TypeVar("ProcessItem", bound="Callable[[BatchItem], Any]")
OnComplete = TypeVar("OnComplete", bound="Callable[[BatchResult], object]")


class BatchQueue:
    """Batches: items stream in, each is processed by a callback, and the last one's end calls another.

    The constructor opens nothing and starts nothing. *client* stays the caller's, who closes it.
    """

    def __init__(
        self,
        client: redis.Redis | RedisCluster,
        options: BatchQueueOptions | None = None,
        *,
        hooks: Iterable[Hook] = (),
        clock: Clock | None = None,
    ) -> None:
        """Args: *hooks* are told of events; *clock* is for tests."""
        self.options = options or BatchQueueOptions()
        self._handler = Handler(self.options, self._read, self._batch)
        extension = Extension(
            owner="batchqueue",
            pieces=(("on_end", "batchqueue/batch"),),
            settings={
                "head_start": _STRICT_BAND,
                "retention": to_ms(self.options.retention),
                "callback_pool": quote(WORKER_QUEUE),
            },
            retry_of=self._handler.retry_of,
            is_limited=lambda message_key: not is_callback(message_key),
        )
        self.queue = FairQueue(client, self.options.queue_options(), hooks=hooks, clock=clock, extension=extension)
        self.codec = Codec(self.options.payload_type, self.options.validate_on_enqueue, self.options.max_payload_bytes)
        self._ledger = Ledger(self.queue.keys, self.queue.scripts)
        self._parameters = Codec(max_bytes=MAX_METADATA_BYTES)
        self.sweep = Sweep(self._ledger, self.queue.shards, self._name, self.queue.queues.purge)
        self._worker: Worker | None = None
        self._loop: Loop | None = None

    @classmethod
    def connect(cls, url: str, *, hooks: Iterable[Hook] = (), clock: Clock | None = None, **options: Any) -> Self:
        """A BatchQueue with a client of its own (see `fairqueue.client.connect`), which `close()` closes."""
        with ExitStack() as opened:
            client = connect(url)
            opened.callback(client.close)
            made = cls(client, BatchQueueOptions(**options), hooks=hooks, clock=clock)
            made.queue.own(url, opened.pop_all())
        return made

    @classmethod
    def embedded(
        cls, path: str | Path | None = None, *, hooks: Iterable[Hook] = (), clock: Clock | None = None, **options: Any
    ) -> Self:
        """A BatchQueue on a private Valkey process of its own; *path* keeps its data, ``.url`` tells where it is."""
        checked = BatchQueueOptions(**options)
        with ExitStack() as opened:
            server = opened.enter_context(EmbeddedServer(path))
            client = connect(server.url)
            opened.callback(client.close)
            made = cls(client, checked, hooks=hooks, clock=clock)
            made.queue.own(server.url, opened.pop_all())
        return made

    @property
    def url(self) -> str | None:
        """Where the server is, if this queue opened it."""
        return self.queue.url

    # -- callbacks

    def on_process_item(self, process: ProcessItem) -> ProcessItem:
        """Process items with this function (a decorator). What it returns is the item's result, JSON, or None.

        It raises `ItemFailed` to fail with a code; any other exception fails the item as UNEXPECTED_ERROR.
        """
        self._handler.process = process
        return process

    def on_batch_complete(self, complete: OnComplete) -> OnComplete:
        """Call this function when a batch has ended (a decorator): until it returns, never two at once."""
        self._handler.complete = complete
        return complete

    # -- batches

    def initialize(
        self,
        batch_id: str,
        *,
        tenant_id: str,
        item_count: int | None = None,
        metadata: dict[str, Any] | None = None,
        processing_concurrency: int | None = None,
        idempotency_key: str | None = None,
        fill_timeout: float | timedelta | None = None,
    ) -> Batch:
        """Make a batch. Again with the same parameters: the batch that is there.

        Args:
            batch_id: its id within the tenant.
            tenant_id: whose it is.
            item_count: items it will have; None: known when it is sealed.
            metadata: JSON, given to every item and to the completion callback; at most 64 KiB.
            processing_concurrency: items of it that run at once; None: only the tenant's limit holds.
            idempotency_key: names the call instead of the batch: answers with the batch that this key made.
            fill_timeout: seconds for filling it, after which it is incomplete; None: the option's.

        Raises:
            InvalidArgument, InvalidId, PayloadError: refused before anything was written.
            BatchConflict: it is there with other parameters.
            Unavailable, OutcomeUnknown: the server did not answer; initialize again.
        """
        check_id("batch_id", batch_id)
        count = None if item_count is None else check_count(item_count)
        concurrency = check_limit("processing_concurrency", processing_concurrency, error=InvalidArgument)
        if idempotency_key is not None:
            check_id("idempotency_key", idempotency_key)
        if metadata is not None and not isinstance(metadata, dict):
            raise InvalidArgument(f"metadata of batch {batch_id!r} must be a dict, not {type(metadata).__name__}")
        raw = self._parameters.encode(metadata or {}, f"metadata of batch {batch_id!r}")
        fill = (
            self.options.fill_timeout if fill_timeout is None else seconds("fill_timeout", fill_timeout, minimum=0.001)
        )
        fill_ms = None if fill is None else to_ms(fill)
        name = self._name(tenant_id, batch_id)
        self.queue.opened(name.shard)
        verdict, record = self._ledger.initialize(
            name,
            count=count,
            metadata=raw,
            concurrency=concurrency,
            fill_ms=fill_ms,
            idempotency_key=idempotency_key,
            fingerprint=_fingerprint([count, msgspec.json.decode(raw), concurrency, fill_ms]),
        )
        if verdict == "other":
            raise BatchConflict(
                f"batch {record.batch_id!r} of tenant {tenant_id!r} is there with another item_count, metadata, "
                "processing_concurrency or fill_timeout: nothing was changed",
                tenant_id=tenant_id,
                batch_id=record.batch_id,
            )
        return self._batch(record, next_index=0)

    def get(self, tenant_id: str, batch_id: str) -> Batch | None:
        """A batch by its name; None when it is not there."""
        check_id("batch_id", batch_id)
        record = self._read(tenant_id, batch_id)
        return None if record is None else self._batch(record)

    def audit(self) -> list[Finding]:
        """Everything in the store that does not agree, of queues and of batches; read-only, an empty list is good."""
        found = self.queue.audit()
        for shard in self.queue.shards:
            found += [Finding(shard, "batch", key, text) for key, text in self._ledger.audit(shard)]
        return found

    def list(
        self,
        tenant_id: str | None = None,
        *,
        status: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[BatchInfo]:
        """Batches that are there, by name; with *status*, those of a page that are in that state."""
        shards = self.queue.shards
        if tenant_id is not None:
            shard = self.queue.resolver.shard(tenant_id)
            shards = range(shard, shard + 1)

        def read(shard: int, after: str, n: int) -> list[tuple[str, BatchInfo | None]]:
            return self._ledger.batches(self.queue.opened(shard), tenant_id, after, n)

        page = paged(shards, cursor, limit, read)
        found = [info for info in page if info is not None and (status is None or info.status == status)]
        return Page(found, page.cursor)

    # -- life

    def start(self) -> None:
        """Start processing in threads of this process, and return. Twice is once.

        Raises:
            ConfigurationError: there is no item callback yet.
        """
        self._prepared().start()

    def stop(self, timeout: float | timedelta | None = None) -> None:
        """Take no more, wait for callbacks that run (*timeout*, else grace), give the rest back."""
        if self._loop is not None:
            self._loop.stop()
        if self._worker is not None:
            self._worker.stop(timeout)
        if self._loop is not None:
            self._loop.join()

    def run(self) -> None:
        """Process until a signal or `stop()`; returns when drained."""
        self._prepared().run()  # takes nothing before it has its signal handlers
        self.stop()

    def close(self) -> None:
        """Stop without waiting for callbacks that run, and close what this queue opened itself."""
        self.stop(timeout=0)
        self.queue.close()

    def __enter__(self) -> Self:
        """``with`` closes."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def health(self) -> dict[str, bool]:
        """Whether each thread is alive and does its work (see `fairqueue.Worker.health`)."""
        threads = {} if self._worker is None else self._worker.health()
        return threads if self._loop is None else {**threads, self._loop.name: self._loop.healthy}

    def run_once(self) -> int:
        """Process what is ready now in this thread; how many deliveries. For tests and scripts."""
        return self._made_worker().run_once()

    # -- parts

    def _made_worker(self) -> Worker:
        if self._handler.process is None:
            raise ConfigurationError("register a function with @b.on_process_item before items are processed")
        if self._worker is None:
            self._worker = Worker(
                self.queue, self._handler, threads=self.options.consumer_count, grace=self.options.grace
            )
        return self._worker

    def _prepared(self) -> Worker:
        """The worker, with what time brings seen to beside it."""
        worker = self._made_worker()
        if self._loop is None or not self._loop.alive:
            self._loop = Loop("batchqueue.sweep", self.sweep.run_once, self.sweep.idle, self.queue.events)
            self._loop.start()
        return worker

    def _name(self, tenant_id: str, batch_id: str, gen: str | None = None) -> BatchName:
        shard = self.queue.resolver.shard(tenant_id)
        by = self.options.shard_by
        return BatchName(
            tenant_id=tenant_id,
            batch_id=batch_id,
            shard=shard,
            gen=secrets.token_hex(8) if gen is None else gen,
            groups=groups_of(by(tenant_id) if by else tenant_id, tenant_id, batch_id),
        )

    def _read(self, tenant_id: str, batch_id: str) -> BatchRecord | None:
        return self._ledger.read(self.queue.opened(self.queue.resolver.shard(tenant_id)), tenant_id, batch_id)

    def _batch(self, record: BatchRecord, next_index: int | None = None) -> Batch:
        return Batch(
            self._name(record.tenant_id, record.batch_id, record.gen),
            record,
            self._ledger,
            self.codec,
            self.queue.queues.purge,
            next_index,
        )


def _fingerprint(parameters: list[Any]) -> str:
    return blake2b(msgspec.json.encode(parameters, order="sorted"), digest_size=16).hexdigest()
