"""Full scale: handlers and forks that hurt (C12, C14)."""

from __future__ import annotations

import os
import threading

import pytest
import redis
from structlog.testing import capture_logs

from fairqueue import ExponentialBackoff, FairQueue, FairQueueOptions, Worker
from tests.scenarios.test_hostile_handlers import Custom, in_child
from tests.scenarios.test_server_conditions import until
from tests.scenarios.test_worker import Handled, settled

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]


def test_bad_messages_among_a_hundred(make_queue):
    """One of each BaseException, a failure hook that raises, then 100 ordinary messages on 4 threads (C12)."""
    kinds = [SystemExit, KeyboardInterrupt, GeneratorExit, Custom, RecursionError, MemoryError]

    def hook(event):
        raise Custom

    def handle(delivery):
        if delivery.payload < len(kinds):
            raise kinds[delivery.payload]

    q = make_queue(clock=None, hooks=[hook], retry=ExponentialBackoff(max_attempts=3, min_delay=0.1, max_delay=0.2))
    worker = Worker(q, Handled(handle), threads=4)
    with capture_logs():
        worker.start()
        q.enqueue_batch(range(len(kinds)), tenant_id="t")
        q.enqueue_batch(range(len(kinds), len(kinds) + 100), tenant_id="t")
        settled(q, completed=100, dead=len(kinds), in_flight=0)
    health = worker.health()
    assert sum(ok for name, ok in health.items() if name.startswith("fairqueue.worker-")) == 4
    worker.stop()
    assert {letter.attempts for letter in q.dead_letters.list("t")} == {3}
    assert q.audit() == []


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_four_children_enqueue_and_work_while_the_parent_goes_on(server_url, namespace):
    """The parent enqueued 10 and forks 4 children of 4 threads with 250 messages each (C14 a)."""
    own = redis.Redis.from_url(server_url)
    q = FairQueue(own, FairQueueOptions(namespace=namespace))
    q.enqueue_batch([f"p{n}" for n in range(10)], tenant_id="p")
    key, clients = f"{{{namespace}:seen", {}

    def notes():
        return clients.setdefault(os.getpid(), redis.Redis.from_url(server_url))

    worker = Worker(q, lambda d: notes().rpush(key, f"{d.payload} {own.client_id()}"), threads=4)
    total = 10 + 4 * 250 + 250

    def produce(name):
        ids = [q.enqueue(f"{name}-{n}", tenant_id=name).message_id for n in range(250)]
        return len(set(ids)) == 250

    def child(n):
        worker.start()
        good = produce(f"c{n}")
        until(lambda: notes().llen(key) >= total)
        worker.stop()
        return 0 if good else 2

    children = [in_child(lambda n=n: child(n)) for n in range(4)]
    producer = threading.Thread(target=produce, args=("parent",))
    producer.start()
    worker.start()
    until(lambda: notes().llen(key) >= total)
    producer.join()
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0] * 4
    settled(q, completed=total, in_flight=0)
    worker.stop()
    lines = [line.decode().split() for line in notes().lrange(key, 0, -1)]
    expected = {f"p{n}" for n in range(10)}
    expected |= {f"{name}-{n}" for name in ("c0", "c1", "c2", "c3", "parent") for n in range(250)}
    assert sorted(payload for payload, _ in lines) == sorted(expected)
    assert len({connection for _, connection in lines}) >= 5
    assert q.audit() == []
    q.close()
    own.close()
    notes().close()
