"""FairQueue: the door of the library. Builds the parts and delegates."""

from __future__ import annotations

import os
import threading
import weakref
from collections import Counter
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Self

import msgspec
from redis.cluster import RedisCluster

from fairqueue.client import connect
from fairqueue.clock import Clock, SystemClock
from fairqueue.connection import Connection
from fairqueue.consumer import Consumer
from fairqueue.delivery import Crew, Delivery
from fairqueue.discards import Discards
from fairqueue.dispatcher import Dispatcher
from fairqueue.durations import seconds, to_ms, whole
from fairqueue.embedded import EmbeddedServer
from fairqueue.errors import ConfigurationError, InvalidArgument
from fairqueue.events import Events, Hook
from fairqueue.extension import Extension
from fairqueue.ids import check_id, quote
from fairqueue.keys import Keys
from fairqueue.limits import LiveLimits
from fairqueue.loops import Loop
from fairqueue.message import NewMessage, Receipt
from fairqueue.opening import Opening
from fairqueue.options import FairQueueOptions
from fairqueue.pauses import Pauses
from fairqueue.payload import Codec
from fairqueue.producer import Producer
from fairqueue.reclaimer import Reclaimer
from fairqueue.resolver import Names, Resolver
from fairqueue.scheduler import Fair
from fairqueue.scripts import PIECES, Scripts
from fairqueue.settlement import Settler
from fairqueue.store.dead_letters import DeadLetterStore
from fairqueue.store.inflight import Inflight
from fairqueue.store.intake import Intake
from fairqueue.store.state import State
from fairqueue.store.worker_queues import WorkerQueueStore
from fairqueue.sweeper import Finding, Sweeper
from fairqueue.views.dead_letters import DeadLetters
from fairqueue.views.groups import Groups
from fairqueue.views.inflight import InFlight
from fairqueue.views.messages import Messages
from fairqueue.views.queues import Queues
from fairqueue.views.tenants import Tenants
from fairqueue.views.worker_queues import WorkerQueues
from fairqueue.waiting import Wakeups

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime, timedelta
    from pathlib import Path

    import redis

_LIVE: weakref.WeakSet[FairQueue] = weakref.WeakSet()


class FairQueue:
    """A fair message queue: tenants own queues, and are served in fair turn within their limits.

    The constructor opens nothing and starts nothing. *client* stays the caller's, who closes it.
    """

    _lock: threading.Lock
    _loops: list[Loop]
    _wakeups: Wakeups | None

    def __init__(
        self,
        client: redis.Redis | RedisCluster,
        options: FairQueueOptions | None = None,
        *,
        hooks: Iterable[Hook] = (),
        clock: Clock | None = None,
        extension: Extension | None = None,
    ) -> None:
        """Args: *hooks* are told of events; *clock* is for tests; *extension* for libraries that stand on this one."""
        self.options = options or FairQueueOptions()
        _refuse_unbuilt(self.options)
        self.client = client
        self.clock: Clock = clock or SystemClock()
        self.events = Events(tuple(hooks))
        self.keys = Keys(self.options.namespace)
        self.shards = range(self.options.shard_count)
        self.names = Names()
        self.url: str | None = None
        self._owned = ExitStack()
        extension = extension or Extension()
        scripts = Scripts(
            Connection(client), self.clock.now_ms, self._script_options(extension), (*PIECES, *extension.pieces)
        )
        codec = Codec(self.options.payload_type, self.options.validate_on_enqueue, self.options.max_payload_bytes)
        self.scripts = scripts
        self._state = State(self.keys, scripts)
        self._worker_queues = WorkerQueueStore(self.keys, scripts)
        discards = Discards(self.events)
        self.leases = Inflight(self.keys, scripts, discards)
        letters = DeadLetterStore(self.keys, scripts, codec, discards)
        self.is_limited = extension.is_limited or (lambda _: True)
        retry_of = extension.retry_of or (lambda _: self.options.retry)
        self.settler = Settler(self.options, retry_of, self.leases, self.events)
        self.crew = Crew(self.leases, self.settler, codec, to_ms(self.options.timeout))
        self.pauses = Pauses(self._state)
        self.limits = LiveLimits(self.options, self._state, self.clock, self.events)
        self.resolver = Resolver(self.options, codec, self.names, self.limits)
        self.opened = Opening(
            self.keys,
            scripts,
            self.options.shard_count,
            extension.owner,
            allow_eviction=self.options.allow_eviction,
        )
        self._producer = Producer(self.resolver, Intake(self.keys, scripts), self.opened, self.events)
        self.consumer = Consumer(
            self.crew, self.names, self.resolver, self._state, self.opened, self.shards, self.wakeups
        )

        self.dispatcher = Dispatcher(self.options, self._worker_queues, self.shards, self.limits)
        self.reclaimer = Reclaimer(
            self.options, retry_of, self.leases, self._worker_queues, letters, self._state, self.shards, self.events
        )
        self.sweeper = Sweeper(self.keys, scripts, self.shards, self.options.sweep_interval)

        self.queues = Queues(self.resolver, self._state, codec, self.shards)
        self.messages = Messages(self.resolver, self._state, codec)
        self.inflight = InFlight(self._state, self.shards)
        self.worker_queues = WorkerQueues(self._worker_queues, self.shards, self.resolver)
        self.tenants = Tenants(self.resolver, self._state, self.shards)
        self.groups = Groups(self.resolver, self._state, self.options, self.limits)
        self.dead_letters = DeadLetters(self.resolver, letters, self.shards, self._now_ms)
        self._after_fork()
        _LIVE.add(self)

    @classmethod
    def connect(cls, url: str, *, hooks: Iterable[Hook] = (), clock: Clock | None = None, **options: Any) -> Self:
        """A queue with a client of its own (see `fairqueue.client.connect`), which `close()` closes."""
        with ExitStack() as opened:
            client = connect(url)
            opened.callback(client.close)
            queue = cls(client, FairQueueOptions(**options), hooks=hooks, clock=clock)
            queue.own(url, opened.pop_all())
        return queue

    @classmethod
    def embedded(
        cls, path: str | Path | None = None, *, hooks: Iterable[Hook] = (), clock: Clock | None = None, **options: Any
    ) -> Self:
        """A queue on a private Valkey process of its own; *path* keeps its data, ``.url`` tells others where it is."""
        checked = FairQueueOptions(**options)
        with ExitStack() as opened:
            server = opened.enter_context(EmbeddedServer(path))
            client = connect(server.url)
            opened.callback(client.close)
            queue = cls(client, checked, hooks=hooks, clock=clock)
            queue.own(server.url, opened.pop_all())
        return queue

    def own(self, url: str, opened: ExitStack) -> None:
        """Have `close()` close what was opened for this queue; *url* is where the server is."""
        self.url = url
        self._owned.push(opened)

    # -- enqueue

    def enqueue(
        self,
        payload: Any,
        *,
        tenant_id: str,
        queue_id: str = "default",
        message_id: str | None = None,
        delay: float | timedelta | None = None,
        not_before: datetime | None = None,
        expires_in: float | timedelta | None = None,
        priority: int = 0,
        metadata: dict[str, Any] | None = None,
    ) -> Receipt:
        """Accept one message. With a *message_id* that lives already nothing changes and ``created`` is False.

        Raises:
            InvalidArgument, InvalidId, PayloadError: refused before anything was written.
            Unavailable: the server did not accept it.
            OutcomeUnknown: the reply was lost; enqueue again with the error's ``message_id``.
        """
        message = NewMessage(
            payload=payload,
            tenant_id=tenant_id,
            queue_id=queue_id,
            message_id=message_id,
            delay=delay,
            not_before=not_before,
            expires_in=expires_in,
            priority=priority,
            metadata=metadata,
        )
        return self._producer.add(message)

    def enqueue_batch(self, messages: Iterable[Any], *, tenant_id: str, queue_id: str = "default") -> list[Receipt]:
        """Accept many: payloads, or `NewMessage` values where one needs an id, a delay or metadata.

        A list or tuple is checked whole before anything is written. Of any other iterable, chunk by chunk, what
        cannot be accepted is told in its receipt's ``error`` and the rest goes in.

        Raises:
            InvalidArgument, InvalidId, PayloadError: (list) refused before anything was written.
            Unavailable, OutcomeUnknown: ``receipts`` tells what is known to be in.
        """
        return self._producer.add_many(messages, tenant_id, queue_id)

    # -- take and settle

    def receive(
        self, worker_queue: str = "default", *, max_messages: int = 1, wait: float | timedelta = 0
    ) -> list[Delivery]:
        """Take up to *max_messages*; with *wait*, up to that many seconds for the first.

        For consumers with a loop of their own: each delivery must be settled, or beaten, within the visibility timeout.
        """
        check_id("worker_queue", worker_queue)
        whole("max_messages", max_messages, minimum=1, maximum=1000, error=InvalidArgument)
        return self.consumer.receive(worker_queue, max_messages, seconds("wait", wait))

    def delivery(self, tenant_id: str, queue_id: str, message_id: str, token: str) -> Delivery:
        """A delivery by its token, to settle it from another place than where it was taken."""
        return self.consumer.delivery(tenant_id, queue_id, message_id, token)

    # -- life

    def start(self) -> None:
        """Start the loops: dispatchers, reclaimer, sweeper. Twice is once."""
        with self._lock:
            if self._loops:
                return
            for shard in self.shards:
                self.opened(shard)
            parts: list[tuple[str, Any]] = [
                (f"fairqueue.dispatcher-{i}", Dispatcher(self.options, self._worker_queues, shards, self.limits))
                for i in range(self.options.dispatcher_threads)
                if (shards := self.shards[i :: self.options.dispatcher_threads])
            ]
            parts.append(("fairqueue.reclaimer", self.reclaimer))
            if self.options.sweep_interval is not None:
                parts.append(("fairqueue.sweeper", self.sweeper))
            self._loops = [Loop(name, role.run_once, role.idle, self.events) for name, role in parts]
            for loop in self._loops:
                loop.start()

    def stop(self, timeout: float | timedelta | None = None) -> None:
        """Stop the loops and wait for them."""
        with self._lock:
            for loop in self._loops:
                loop.stop()
            for loop in self._loops:
                loop.join(None if timeout is None else seconds("timeout", timeout))
            self._loops = []

    def close(self) -> None:
        """Stop, and close what this queue opened itself."""
        self.stop()
        if self._wakeups is not None:
            self._wakeups.close()
            self._wakeups = None
        self._owned.close()

    def __enter__(self) -> Self:
        """``with`` closes."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Start the loops for the length of a block."""
        self.start()
        try:
            yield self
        finally:
            self.stop()

    def health(self) -> dict[str, bool]:
        """Whether each loop that was started is alive and its last step worked."""
        return {loop.name: loop.healthy for loop in self._loops}

    def stats(self) -> dict[str, int]:
        """Messages counted over all shards since the namespace was made, and where messages are now.

        Counted: enqueued, dispatched, completed, retried, released, handed_back, given_back, reclaimed, dead,
        redriven, purged and evicted (dead letters), discarded, cancelled, dropped (purged while they waited), expired.
        Now: waiting (delayed ones too), in_worker_queues, in_flight, dead_letters.
        """
        total: Counter[str] = Counter()
        for shard in self.shards:
            total.update(self._state.stats(shard))
        return dict(total)

    def audit(self) -> list[Finding]:
        """Everything in the store that does not agree; read-only, an empty list is good."""
        return self.sweeper.audit()

    def wakeups(self) -> Wakeups:
        """This process's subscription."""
        with self._lock:
            if self._wakeups is None:
                channel = self.keys.channel(self.names.next())
                self._wakeups = Wakeups(self.scripts.connection.nodes, channel, self.events)
            return self._wakeups

    def _after_fork(self) -> None:
        """A child has none of its parent's threads, and must not wait for a lock that one of them held."""
        self._lock = threading.Lock()
        self._loops = []
        self._wakeups = None
        self.limits.after_fork()

    def _script_options(self, extension: Extension) -> bytes:
        limits = {g.name: g.default_limit for g in self.options.concurrency_groups if g.default_limit is not None}
        live = {quote(g.name): True for g in self.options.concurrency_groups if g.limit is not None}
        return msgspec.msgpack.encode(
            {
                "limits": {quote(name): limit for name, limit in limits.items()},
                "dead_letters": self.options.dead_letters,
                "dead_limit": self.options.dead_letter_limit,
                "dedupe": to_ms(seconds("dedupe_window", self.options.dedupe_window)),
                "round_robin": self.options.tenant_order == "round_robin",
                **({"live": live} if live else {}),
                **({"cluster": True} if isinstance(self.client, RedisCluster) else {}),
                **({"tell": 2 if self.events.payloads else 1} if self.events else {}),
                **extension.settings,
            }
        )

    def _now_ms(self) -> int:
        now = self.clock.now_ms()
        if now is not None:
            return now
        seconds_, micros = self.scripts.connection.call(self.keys.root(0), lambda _: ("TIME",), repeatable=True)
        return int(seconds_) * 1000 + int(micros) // 1000


def _after_fork_in_child() -> None:
    for queue in list(_LIVE):
        queue._after_fork()  # noqa: SLF001 - ours
        queue.scripts.connection.nodes.after_fork()


os.register_at_fork(after_in_child=_after_fork_in_child)


def _refuse_unbuilt(options: FairQueueOptions) -> None:
    """An option that nothing acts on yet is refused, never ignored."""
    unbuilt = [
        name
        for name, used in (
            (f"scheduler={options.scheduler!r}", not isinstance(options.scheduler, Fair)),
            ("cooloff", options.cooloff is not None),
        )
        if used
    ]
    if unbuilt:
        raise ConfigurationError(f"not available in this version: {', '.join(unbuilt)}")
