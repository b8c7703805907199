"""A Worker with real threads: everything once, limits kept, stops that lose nothing."""

from __future__ import annotations

import threading

import pytest

from fairqueue import Bury, ConcurrencyGroup, FixedDelay, ImmediateRetry, Retry, Worker

pytestmark = pytest.mark.server


class Handled:
    """Counts deliveries and waits for a number of them."""

    def __init__(self, then=lambda _: None):
        self.deliveries = []
        self.then = then
        self._more = threading.Condition()

    def __call__(self, delivery):
        with self._more:
            self.deliveries.append(delivery)
            self._more.notify_all()
        self.then(delivery)

    def wait_for(self, n, seconds=20):
        with self._more:
            assert self._more.wait_for(lambda: len(self.deliveries) >= n, seconds), f"{len(self.deliveries)} of {n}"


def settled(q, **expected):
    """Wait until the counters say so."""
    for _ in range(400):
        stats = q.stats()
        if all(stats.get(name, 0) == n for name, n in expected.items()):
            return
        threading.Event().wait(0.025)
    raise AssertionError(q.stats())


@pytest.mark.parametrize("prefetch", [0, 20])
def test_every_message_is_handled_once(make_queue, prefetch):
    """Eight threads, many tenants: each message once, and the books balance."""
    q = make_queue(clock=None)
    for tenant in range(20):
        q.enqueue_batch([f"{tenant}-{n}" for n in range(50)], tenant_id=f"t{tenant}")
    handled = Handled()
    worker = Worker(q, handled, prefetch=prefetch)
    worker.start()
    handled.wait_for(1000)
    settled(q, completed=1000, in_flight=0)
    worker.stop()

    assert len({d.payload for d in handled.deliveries}) == len(handled.deliveries) == 1000
    assert q.audit() == []


@pytest.mark.parametrize("limit", [1, 3])
def test_a_limit_is_never_exceeded(make_queue, limit):
    """The most handlers of one tenant at once is its limit, exactly (C04, threads)."""
    q = make_queue(
        clock=None,
        concurrency_groups=[ConcurrencyGroup(name="t", group_id=lambda m: m.tenant_id, default_limit=limit)],
    )
    q.enqueue_batch(range(100), tenant_id="one")
    lock, now, most = threading.Lock(), [0], [0]

    def handle(_):
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        threading.Event().wait(0.002)
        with lock:
            now[0] -= 1

    handled = Handled(handle)
    workers = [Worker(q, handled, dispatch=False) for _ in range(2)]
    for worker in workers:
        worker.start()
    handled.wait_for(100)
    settled(q, completed=100, in_flight=0)
    for worker in workers:
        worker.stop()

    assert most[0] == limit
    assert q.groups.usage("t", "one") == (0, limit)


def test_failures_retry_and_die_as_they_say(make_queue):
    """An exception retries, Retry waits its time, Bury ends at once; whatever is raised, the threads live (C12)."""
    q = make_queue(clock=None, retry=ImmediateRetry(2))
    kinds = [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit, RecursionError, MemoryError, BaseException]

    def handle(delivery):
        if delivery.payload == "bury":
            raise Bury("no use")
        if delivery.payload == "retry" and delivery.attempt == 1:
            raise Retry(after=0.05)
        if isinstance(delivery.payload, int) and delivery.payload < len(kinds):
            raise kinds[delivery.payload]

    handled = Handled(handle)
    q.enqueue_batch([*range(len(kinds) + 30), "bury", "retry"], tenant_id="t")
    worker = Worker(q, handled, threads=4)
    worker.start()
    settled(q, completed=31, dead=len(kinds) + 1, in_flight=0)
    health = worker.health()
    worker.stop()

    assert all(health.values())
    letters = {letter.payload: letter for letter in q.dead_letters.list("t")}
    assert letters["bury"].reason == "no use"
    assert {letters[n].last_error.split(":")[0] for n in range(len(kinds))} == {kind.__name__ for kind in kinds}
    assert all(letters[n].attempts == 2 for n in range(len(kinds)))
    assert q.audit() == []


def test_an_idle_worker_is_woken(make_queue):
    """A message that comes while all wait, one that falls due, and a freed slot are started without polling."""
    q = make_queue(
        clock=None, concurrency_groups=[ConcurrencyGroup(name="t", group_id=lambda m: m.tenant_id, default_limit=1)]
    )
    gate = threading.Event()
    handled = Handled(lambda d: gate.wait(10) if d.payload == "first" else None)
    worker = Worker(q, handled)
    worker.start()
    threading.Event().wait(0.3)
    q.enqueue("first", tenant_id="t")
    handled.wait_for(1, seconds=2)
    q.enqueue("second", tenant_id="t")
    q.enqueue("due", tenant_id="u", delay=0.2)
    handled.wait_for(2, seconds=2)
    gate.set()
    handled.wait_for(3, seconds=2)
    worker.stop()
    assert [d.payload for d in handled.deliveries] == ["first", "due", "second"]


def test_stop_waits_for_what_runs_and_gives_back_the_rest(make_queue):
    """Running handlers finish and count; prefetched messages go back at once with nothing charged (C13)."""
    q = make_queue(clock=None)
    q.enqueue_batch(range(20), tenant_id="t")
    running, gate = threading.Semaphore(0), threading.Event()

    def handle(_):
        running.release()
        gate.wait(10)

    handled = Handled(handle)
    worker = Worker(q, handled, threads=4, prefetch=8)
    worker.start()
    for _ in range(4):
        assert running.acquire(timeout=5)
    stopper = threading.Thread(target=worker.stop)
    stopper.start()
    gate.set()
    stopper.join(10)

    assert q.stats()["completed"] == len(handled.deliveries)
    assert q.inflight.count() == 0
    rest = q.receive(max_messages=50)
    assert len(rest) == 20 - len(handled.deliveries)
    assert {(d.attempt, d.deliveries) for d in rest} <= {(1, 1)}
    assert q.audit() == []


def test_grace_ends_and_the_message_is_free(make_queue):
    """A handler that does not end is left behind; its message can be taken by others at once."""
    q = make_queue(clock=None)
    q.enqueue("long", tenant_id="t")
    started, gate = threading.Event(), threading.Event()

    def handle(_):
        started.set()
        gate.wait(20)

    worker = Worker(q, handle, threads=1)
    worker.start()
    assert started.wait(5)
    worker.stop(timeout=0.05)
    [again] = q.receive()
    gate.set()
    again.complete()
    assert q.audit() == []


def test_leases_are_beaten_while_a_handler_runs(make_queue):
    """A handler may run for many visibility timeouts and keeps its lease."""
    q = make_queue(clock=None, visibility_timeout=0.3, reclaim_interval=0.05)
    q.enqueue("long", tenant_id="t")
    handled = Handled(lambda _: threading.Event().wait(1.2))
    worker = Worker(q, handled)
    worker.start()
    settled(q, completed=1, in_flight=0)
    worker.stop()

    assert len(handled.deliveries) == 1
    assert not handled.deliveries[0].lost.is_set()


def test_a_handler_past_max_run_time_is_told_and_replaced(make_queue):
    """It is not beaten any more: `lost` is set and another delivery follows."""
    q = make_queue(clock=None, visibility_timeout=0.3, max_run_time=0.2, reclaim_interval=0.05, retry=FixedDelay(5, 0))
    q.enqueue("hangs", tenant_id="t")
    told, again = [], threading.Event()

    def handle(delivery):
        if delivery.attempt == 1:
            told.append(delivery.lost.wait(5))
            again.wait(5)
        else:
            again.set()

    handled = Handled(handle)
    worker = Worker(q, handled)
    worker.start()
    handled.wait_for(2)
    settled(q, completed=1, in_flight=0)
    worker.stop()

    assert told == [True]
    assert [d.attempt for d in handled.deliveries] == [1, 2]
