"""Hands: the threads that run handlers. One that dies is replaced, one that hangs is left behind."""

from __future__ import annotations

import threading
import time
from collections import deque
from queue import SimpleQueue
from typing import TYPE_CHECKING

import attrs
import structlog

from fairqueue import events, failpoints
from fairqueue.pauses import LATELY
from fairqueue.store.inflight import Settlement
from fairqueue.waiting import EVERYWHERE

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from fairqueue.delivery import Delivery
    from fairqueue.events import Events


@attrs.frozen
class Done:
    """A delivery that left its thread, and what it comes to (None: settled by the handler itself)."""

    delivery: Delivery
    settlement: Settlement | None


@attrs.define(eq=False)
class _Hand:
    """One thread and what it works on."""

    thread: threading.Thread | None = None
    delivery: Delivery | None = None
    begun: float = 0.0  # monotonic
    left: bool = False  # its handler is overdue: it ends with it

    def runs_longer_than(self, limit: float) -> bool:
        """Whether its handler is overdue and nobody has noticed."""
        return self.delivery is not None and not self.left and time.monotonic() - self.begun > limit


class Hands:
    """*threads* threads around *handler*, and everything they have been given.

    A thread that dies fails its delivery and is replaced. A thread whose handler is overdue is left behind, since
    it cannot be killed, and a new one takes its place: at most *threads* are left behind at a time, then the pool
    shrinks by one for each more. A handler that ends after all frees its place.
    """

    def __init__(
        self,
        handler: Callable[[Delivery], object],
        threads: int,
        prefetch: int,
        told: Events,
        paused: Callable[[Delivery], bool],
    ) -> None:
        """Start nothing. *paused* is asked about what waited for a thread."""
        self.held: dict[str, Delivery] = {}  # by token: given, not settled, lease renewed
        self.overdue: dict[str, Delivery] = {}  # by token: given, not settled, lease not renewed any more
        self.done: deque[Done] = deque()
        self.news: SimpleQueue[str | None] = SimpleQueue()  # None: of `done`; else which shard has work, by its root
        self._handler = handler
        self._threads = threads
        self._prefetch = prefetch
        self._events = told
        self._paused = paused
        self._lock = threading.Lock()
        self._backlog: deque[Delivery] = deque()
        self._given_at: dict[str, float] = {}  # by token
        self._tickets: SimpleQueue[None] = SimpleQueue()  # one for each of the backlog, or more
        self._slots: list[_Hand] = []
        self._left: list[_Hand] = []
        self._draining = self._closed = False

    def start(self) -> None:
        """Start the threads."""
        for i in range(self._threads):
            self._slots.append(self._hand(i))

    def room(self, settled: Iterable[Done] = ()) -> int:
        """How many more deliveries may be given, once those are *settled*."""
        usable = sum(not hand.left for hand in self._slots)
        held = len(self.held) - sum(item.delivery.token in self.held for item in settled)
        return usable + self._prefetch - held if usable else 0

    @property
    def health(self) -> dict[str, bool]:
        """Whether each thread is there to work: alive, and not stuck in an overdue handler."""
        return {_name(i): _alive(hand) and not hand.left for i, hand in enumerate(self._slots)}

    @property
    def running(self) -> set[str]:
        """Tokens of what handlers work on."""
        with self._lock:
            return {hand.delivery.token for hand in self._slots if hand.delivery is not None}

    def mine(self) -> bool:
        """Whether the caller is one of the threads."""
        me = threading.current_thread()
        return any(hand.thread is me for hand in [*self._slots, *self._left])

    def wake(self, root: str = EVERYWHERE) -> None:
        """Have the fetcher look around, or at the one shard of that root key."""
        self.news.put(root)

    def give(self, delivery: Delivery) -> None:
        """Have it handled by the next free thread; while draining it comes back unstarted."""
        self.held[delivery.token] = delivery
        self._given_at[delivery.token] = time.monotonic()
        with self._lock:
            back = self._draining
            if not back:
                self._backlog.append(delivery)
        if back:
            self._end(Done(delivery, plain("hand_back", delivery)))
        self._tickets.put(None)

    def drain(self) -> None:
        """Start no handler any more; what no thread has begun comes back at once."""
        self._draining = True
        self._hand_back()

    def close(self) -> None:
        """End the threads; one that is stuck in its handler is left behind."""
        self._closed = True
        for _ in self._slots:
            self._tickets.put(None)
        end = time.monotonic() + 0.5
        for hand in self._slots:
            if hand.thread is not None:
                hand.thread.join(max(0.0, end - time.monotonic()))

    def mend(self, finished: Container[str]) -> None:
        """Give again what the fetcher held when an error threw it off its course: it is nowhere, and not *finished*."""
        with self._lock:
            placed = {d.token for d in self._backlog} | {h.delivery.token for h in self._slots if h.delivery}
        placed |= {done.delivery.token for done in list(self.done)}
        for token, delivery in list(self.held.items()):
            if token not in placed and token not in finished:
                self.give(delivery)

    def forget(self, delivery: Delivery) -> None:
        """It is settled, or lost."""
        for by_token in (self.held, self.overdue, self._given_at):
            by_token.pop(delivery.token, None)

    def handle(self, delivery: Delivery) -> Done:
        """Run the handler; whatever it raises is its message's failure."""
        try:
            if self._events:
                self._events.emit(
                    events.Started(
                        tenant_id=delivery.tenant_id,
                        queue_id=delivery.queue_id,
                        message_id=delivery.id,
                        attempt=delivery.attempt,
                    )
                )
            if failpoints.reached is not None:
                failpoints.reached("handler:before")
            self._handler(delivery)
            if failpoints.reached is not None:
                failpoints.reached("handler:after")
        except BaseException as error:  # noqa: BLE001 - SystemExit and its like too
            settlement = _failure(delivery, error)
        else:
            settlement = delivery.outcome or plain("complete", delivery)
        return Done(delivery, None if delivery.settled else settlement)

    def tend(self, max_run: float | None) -> None:
        """Replace threads that died; leave behind those whose handler has run for more than *max_run* seconds."""
        with self._lock:
            died = [hand for hand in self._slots if not _alive(hand)]
            begun = [(h, None if h.delivery in self._backlog else h.delivery) for h in died if not h.left]
            late = [hand for hand in self._slots if max_run is not None and hand.runs_longer_than(max_run)]
            for hand in late:
                hand.left = True
        for hand, delivery in begun:
            self._bury(hand, delivery)
        for hand in late:
            self._report(hand.delivery)
        self._replace()

    def _replace(self) -> None:
        with self._lock:
            self._left = [hand for hand in self._left if _alive(hand)]
            for i, hand in enumerate(self._slots):
                stuck = hand.left and _alive(hand)
                if self._closed or (_alive(hand) and not hand.left) or (stuck and len(self._left) >= self._threads):
                    continue
                self._slots[i] = self._hand(i)
                self._tickets.put(None)  # for one that ended with its thread
                if stuck:
                    self._left.append(hand)
                self.wake()  # there is room
        if self._slots and all(hand.left for hand in self._slots):
            self._hand_back()  # nobody is there to begin it

    def _hand(self, i: int) -> _Hand:
        hand = _Hand()
        hand.thread = threading.Thread(target=self._work, args=(hand,), name=_name(i), daemon=True)
        hand.thread.start()
        return hand

    def _work(self, hand: _Hand) -> None:
        while not self._closed:
            self._tickets.get()
            with self._lock:
                if not self._backlog:
                    continue
                hand.begun = time.monotonic()
                hand.delivery = self._backlog[
                    0
                ]  # in two steps: a thread that dies here leaves it in one place at least
                self._backlog.popleft()
            self._end(self._handled(hand.delivery))
            with self._lock:
                hand.delivery = None
                if hand.left:
                    return

    def _handled(self, delivery: Delivery) -> Done:
        waited = time.monotonic() - self._given_at.pop(delivery.token, 0.0)
        if waited >= LATELY and self._paused(delivery):  # its tenant or queue, while it waited (prefetch)
            return Done(delivery, plain("hand_back", delivery))
        return self.handle(delivery)

    def _bury(self, hand: _Hand, delivery: Delivery | None) -> None:
        """What a dead thread had begun has failed."""
        if self._closed:
            return
        if delivery is not None:
            self._end(Done(delivery, None if delivery.settled else _failure(delivery, "the handler's thread died")))
        structlog.get_logger("fairqueue").error("fairqueue.thread_replaced", thread=hand.thread and hand.thread.name)

    def _report(self, delivery: Delivery | None) -> None:
        if delivery is None:  # it ended just now
            return
        self.overdue[delivery.token] = delivery
        self.held.pop(delivery.token, None)
        delivery.lost.set()
        self.wake()
        ids = {"tenant_id": delivery.tenant_id, "queue_id": delivery.queue_id, "message_id": delivery.id}
        structlog.get_logger("fairqueue").warning("fairqueue.handler_overdue", attempt=delivery.attempt, **ids)
        if self._events:
            self._events.emit(events.Overdue(attempt=delivery.attempt, **ids))

    def _end(self, done: Done) -> None:
        self.done.append(done)
        self.news.put(None)

    def _hand_back(self) -> None:
        with self._lock:
            unstarted = list(self._backlog)
            self._backlog.clear()
        for delivery in unstarted:
            self._end(Done(delivery, plain("hand_back", delivery)))


def plain(verb: str, delivery: Delivery) -> Settlement:
    """A settlement that needs no more than its name."""
    return Settlement(verb=verb, key=delivery.key, token=delivery.token)


def _failure(delivery: Delivery, error: BaseException | str) -> Settlement:
    try:
        return delivery.failure(error)
    except BaseException as trouble:  # noqa: BLE001 - such as Retry(after="soon")
        return delivery.failure(f"{type(error).__name__}, and then {type(trouble).__name__}")


def _alive(hand: _Hand) -> bool:
    return hand.thread is not None and hand.thread.is_alive()


def _name(i: int) -> str:
    return f"fairqueue.worker-{i}"
