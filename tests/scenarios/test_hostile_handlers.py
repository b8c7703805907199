"""Handlers, hooks and threads that misbehave: the others go on, and every message is accounted for."""

from __future__ import annotations

import ctypes
import os
import threading

import pytest
import redis
from structlog.testing import capture_logs

from fairqueue import Bury, ConfigurationError, CustomRetry, FairQueue, FairQueueOptions, FixedDelay, Retry, Worker
from fairqueue.events import Lost, Overdue, Settled
from fairqueue.testing import Collected
from tests.scenarios.test_server_conditions import until
from tests.scenarios.test_worker import Handled, settled


class Custom(BaseException):
    """Not an Exception."""


class Unspeakable(Exception):
    def __str__(self):
        raise Custom


class WrongReason(Bury):
    def __init__(self):
        super().__init__()
        self.reason = 7


RAISED = [SystemExit, KeyboardInterrupt, GeneratorExit, Custom, RecursionError, MemoryError, Unspeakable, WrongReason]


@pytest.mark.parametrize("hook_raises", [Exception, SystemExit, KeyboardInterrupt, Custom])
def test_whatever_is_raised_is_one_failed_attempt(make_queue, hook_raises):
    """Errors of handlers, hooks and policies end no thread and change no other message's state (C12)."""

    def hook(event):
        if threading.current_thread() is not threading.main_thread():  # there it would be somebody's Ctrl-C
            raise hook_raises

    def no_delay(attempt, error):
        raise hook_raises

    def handle(delivery):
        if delivery.payload < len(RAISED):
            raise RAISED[delivery.payload]
        if delivery.payload == len(RAISED):
            raise Retry(after="soon")

    q = make_queue(clock=None, hooks=[hook], retry=CustomRetry(2, delay=no_delay))
    handled = Handled(handle)
    worker = Worker(q, handled, threads=4)
    with capture_logs() as logs:
        q.enqueue_batch(range(len(RAISED) + 1 + 60), tenant_id="t")
        worker.start()
        settled(q, completed=60)
        health = worker.health()
        worker.stop(timeout=0)
    assert sum(name.startswith("fairqueue.worker-") for name in health) == 4
    assert all(health.values())
    failed = q.stats()
    assert failed.get("dead", 0) + failed.get("retried", 0) >= len(RAISED)
    assert {line["event"] for line in logs} == {"fairqueue.hook_failed"}
    assert q.audit() == []


def test_a_thread_that_dies_fails_its_message_and_is_replaced(make_queue):
    """An exception thrown into every thread while it waits or works: nothing is stuck, the pool is whole again."""
    q = make_queue(clock=None, retry=FixedDelay(5, 0))
    gate = threading.Event()
    handled = Handled(lambda delivery: delivery.payload == "long" and not gate.is_set() and gate.wait(0.05))
    worker = Worker(q, handled, threads=3)
    worker.start()

    def threads():
        return {thread for thread in threading.enumerate() if thread.name.startswith("fairqueue.worker-")}

    first = threads()

    def throw():
        for thread in threads():
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(Custom))

    with capture_logs() as logs, pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading, "excepthook", lambda _: None)
        for _ in range(5):
            throw()
            q.enqueue_batch(["long"] * 6, tenant_id="t")  # wakes the threads: that is when the exception arrives
            until(lambda: all(worker.health().values()))
        gate.set()
        settled(q, completed=30, in_flight=0)
    assert "fairqueue.thread_replaced" in {line["event"] for line in logs}
    assert len(threads()) == 3
    assert not threads() & first
    worker.stop()
    assert q.audit() == []


def test_a_fetcher_that_dies_is_started_again(make_queue):
    """The one thread that talks to the server is looked after too."""
    q = make_queue(clock=None)
    handled = Handled()
    worker = Worker(q, handled, threads=2)
    worker.start()
    q.enqueue(1, tenant_id="t")
    handled.wait_for(1)
    fetcher = next(thread for thread in threading.enumerate() if thread.name == "fairqueue.fetcher")
    with capture_logs(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading, "excepthook", lambda _: None)
        while fetcher.is_alive():
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(fetcher.ident), ctypes.py_object(Custom))
            worker._hands.wake()
            fetcher.join(0.005)  # the second one arrives while it gets over the first
    until(lambda: all(worker.health().values()))
    q.enqueue("last", tenant_id="t")
    until(lambda: "last" in [d.payload for d in handled.deliveries])
    worker.stop()


def hanging_worker(make_queue, threads, **options):
    """A worker whose handler hangs on payload "hang" until the gate opens."""
    hook, gate = Collected(), threading.Event()
    q = make_queue(
        clock=None, hooks=[hook], visibility_timeout=0.3, max_run_time=0.15, reclaim_interval=0.05, max_deliveries=1
    )
    handled = Handled(lambda delivery: delivery.payload == "hang" and gate.wait(30))
    return q, hook, gate, handled, Worker(q, handled, threads=threads, **options)


def test_a_handler_that_hangs_does_not_stop_the_others(make_queue):
    """Every thread hangs past max_run_time: each is told, left behind and replaced, and other messages are done."""
    q, hook, gate, handled, worker = hanging_worker(make_queue, threads=2)
    worker.start()
    q.enqueue_batch(["hang"] * 2, tenant_id="t")
    handled.wait_for(2)
    with capture_logs() as logs:
        q.enqueue_batch(range(20), tenant_id="u")
        settled(q, completed=20, dead=2)
        until(lambda: all(worker.health().values()))
    assert [line["event"] for line in logs].count("fairqueue.handler_overdue") <= 2
    assert len(hook.of(Overdue)) == 2
    assert all(d.lost.is_set() for d in handled.deliveries if d.payload == "hang")
    assert {letter.reason for letter in q.dead_letters.list("t")} == {"worker lost: delivery limit of 1 reached"}
    gate.set()
    until(lambda: len(hook.of(Lost)) == 2)  # their results come too late and change nothing
    assert q.stats()["completed"] == 20
    worker.stop()
    assert q.audit() == []


def test_threads_left_behind_are_bounded(make_queue):
    """At most as many are left behind as the pool has: then it shrinks, says so, and grows again when they end."""
    q, _, gate, handled, worker = hanging_worker(make_queue, threads=2, prefetch=3)
    worker.start()
    threads = {thread.name for thread in threading.enumerate()}
    q.enqueue_batch(["hang"] * 9, tenant_id="t")
    with capture_logs():
        handled.wait_for(4)
        until(lambda: not any(ok for name, ok in worker.health().items() if name.startswith("fairqueue.worker-")))
        alive = [thread for thread in threading.enumerate() if thread.name.startswith("fairqueue.worker-")]
        assert len(alive) == 4
        until(lambda: q.queues.length("t") == 5)  # what was taken ahead went back: nobody here could begin it
        assert len(handled.deliveries) == 4
        settled(q, dead=4)
        gate.set()
        until(lambda: all(worker.health().values()))
        settled(q, dead=4, completed=5, in_flight=0)
    worker.stop()
    assert {thread.name for thread in threading.enumerate()} <= threads
    assert q.audit() == []


def test_a_stop_does_not_wait_for_threads_left_behind(make_queue):
    """They are counted out already; the rest drains."""
    q, hook, gate, _, worker = hanging_worker(make_queue, threads=1)
    worker.start()
    q.enqueue("hang", tenant_id="t")
    with capture_logs():
        until(lambda: hook.of(Overdue))
    worker.stop(timeout=60)
    assert worker.health() == {}
    gate.set()


def test_prefetched_messages_go_back_at_once_when_stopping(make_queue):
    """Although a handler still runs: others can take them while it finishes."""
    q = make_queue(clock=None)
    started, gate = threading.Event(), threading.Event()

    def handle(_):
        started.set()
        gate.wait(20)

    q.enqueue_batch(range(5), tenant_id="t")
    worker = Worker(q, handle, threads=1, prefetch=4)
    worker.start()
    assert started.wait(5)
    until(lambda: q.inflight.count() == 5)
    stopper = threading.Thread(target=worker.stop)
    stopper.start()
    until(lambda: q.inflight.count() == 1)
    assert {(d.attempt, d.deliveries) for d in q.receive(max_messages=9)} == {(1, 1)}
    assert stopper.is_alive()
    gate.set()
    stopper.join(10)
    assert q.stats()["completed"] == 1
    assert q.audit() == []


def test_a_handler_may_stop_its_worker(make_queue):
    """It only asks; run() drains and returns, and the handler's own message is completed."""
    q = make_queue(clock=None)
    q.enqueue_batch(range(3), tenant_id="t")
    worker = Worker(q, lambda delivery: worker.stop(), threads=1)
    runner = threading.Thread(target=worker.run)
    runner.start()
    runner.join(10)
    assert not runner.is_alive()
    assert q.stats()["completed"] == 1
    assert q.inflight.count() == 0


def test_start_and_stop_may_be_repeated_from_many_threads(make_queue):
    """Twice is once, and a stopped worker can be started again."""
    q = make_queue(clock=None)
    handled = Handled()
    worker = Worker(q, handled, threads=2)
    for n in range(1, 4):
        for method in (worker.start, worker.stop):
            threads = [threading.Thread(target=method) for _ in range(4)]
            for thread in threads:
                thread.start()
            if method == worker.start:
                q.enqueue(n, tenant_id="t")
                handled.wait_for(n)
            for thread in threads:
                thread.join(20)
                assert not thread.is_alive()
    assert worker.health() == {}
    assert q.stats()["completed"] == 3


def test_a_handler_that_settles_twice_and_then_raises(make_queue):
    """The first settlement counts."""
    hook = Collected()
    q = make_queue(clock=None, hooks=[hook])

    def handle(delivery):
        delivery.complete()
        delivery.complete()
        delivery.fail("no")
        raise ValueError

    q.enqueue(1, tenant_id="t")
    worker = Worker(q, handle, threads=1)
    worker.start()
    until(lambda: q.stats().get("completed"))
    worker.stop()
    assert [event.outcome for event in hook.of(Settled)] == ["complete"]
    assert q.stats()["dead"] == 0


def in_child(work):
    """Run *work* in a forked child; what it returns is the exit code."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            code = work()
        finally:
            os._exit(code)
    return pid


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize("when", ["before start", "after start"])
def test_a_worker_survives_a_fork(server_url, namespace, when):
    """Children run the parent's worker object with threads and sockets of their own while the parent goes on (C14)."""
    client = redis.Redis.from_url(server_url)
    q = FairQueue(client, FairQueueOptions(namespace=namespace))
    q.enqueue_batch([f"p{n}" for n in range(10)], tenant_id="p")
    clients = {}

    def notes():
        """A client of this process: redis-py's own may hang in a child when a thread used it during the fork."""
        return clients.setdefault(os.getpid(), redis.Redis.from_url(server_url))

    def seen():
        return notes().lrange(f"{{{namespace}:seen", 0, -1)

    worker = Worker(q, lambda delivery: notes().rpush(f"{{{namespace}:seen", delivery.payload), threads=4)
    if when == "after start":
        worker.start()
    parents = client.client_id()

    def child(n):
        if worker.health():
            return 1  # none of its threads is here
        worker.stop()  # nor anything to stop
        ids = {q.enqueue(f"c{n}-{i}", tenant_id=f"c{n}").message_id for i in range(60)}
        worker.start()
        until(lambda: len(seen()) >= 250)
        until(lambda: all(worker.health().values()))
        own = client.client_id() != parents
        worker.stop()
        return 0 if len(ids) == 60 and own else 2

    children = [in_child(lambda n=n: child(n)) for n in range(4)]
    worker.start()
    until(lambda: len(seen()) >= 250)
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0] * 4
    settled(q, completed=250, in_flight=0)
    worker.stop()
    assert len(seen()) == len(set(seen())) == 250
    assert q.audit() == []
    q.close()
    client.close()
    notes().close()


@pytest.mark.parametrize("blocking", [False, True])
@pytest.mark.parametrize("connections", [1, 5])
def test_a_worker_and_producers_on_a_small_pool(server_url, namespace, blocking, connections):
    """Forty threads of each on a few connections with short timeouts: nobody hears of it (C17)."""
    kind = redis.BlockingConnectionPool if blocking else redis.ConnectionPool
    pool = kind.from_url(server_url, max_connections=connections, socket_timeout=1)
    client = redis.Redis(connection_pool=pool)
    q = FairQueue(client, FairQueueOptions(namespace=namespace))
    handled, errors = Handled(), []
    worker = Worker(q, handled, threads=40)

    def produce(k):
        try:
            for n in range(10):
                q.enqueue(n, tenant_id=f"t{k}")
        except Exception as error:  # noqa: BLE001 - told below
            errors.append(error)

    with capture_logs() as logs:
        worker.start()
        threads = [threading.Thread(target=produce, args=(k,)) for k in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        handled.wait_for(400)
        settled(q, completed=400, in_flight=0)
        assert q.receive(wait=0.1) == []
        worker.stop()
    assert errors == []
    assert logs == []
    q.close()
    client.close()
    pool.disconnect()


def test_a_pool_that_stays_used_up_is_named(server_url, namespace, monkeypatch):
    """The caller holds every connection: the error says so and what to raise."""
    client = redis.Redis.from_url(server_url, max_connections=1)
    q = FairQueue(client, FairQueueOptions(namespace=namespace))
    monkeypatch.setattr(q.scripts.connection, "_patience", 0.05)
    taken = client.connection_pool.get_connection()
    with pytest.raises(Exception, match=r"raise its max_connections.*'m'"):
        q.enqueue(1, tenant_id="t", message_id="m")
    client.connection_pool.release(taken)
    assert q.enqueue(1, tenant_id="t", message_id="m").created
    client.close()


def test_a_handler_must_be_callable(make_queue):
    """Refused at birth."""
    with pytest.raises(ConfigurationError, match="not callable"):
        Worker(make_queue(), "print")
