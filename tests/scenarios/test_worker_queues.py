"""Worker queues: which pool a message is for, each served fairly by itself, none ahead of its workers for long."""

from __future__ import annotations

import threading

import pytest

from fairqueue import ConfigurationError, InvalidId, NewMessage, Worker

pytestmark = pytest.mark.server


def by_kind(message):
    return message.metadata["kind"] if message.metadata else "default"


def add(q, kind, n=1, *, tenant="t", queue="default"):
    q.enqueue_batch(
        [NewMessage(payload=kind, metadata={"kind": kind}) for _ in range(n)], tenant_id=tenant, queue_id=queue
    )


def test_a_name_for_all(make_queue):
    """A str names the one worker queue of a namespace; nobody else's is served."""
    q = make_queue(worker_queue="mail")
    q.enqueue(1, tenant_id="t", message_id="m")
    assert q.messages.get("t", "default", "m").worker_queue == "mail"
    assert q.receive() == []
    assert len(q.receive("mail")) == 1


@pytest.mark.parametrize("wrong", ["", 7, None, "x" * 300])
def test_a_callable_that_gives_no_name_is_refused(make_queue, wrong):
    """Before anything is written."""
    q = make_queue(worker_queue=lambda _: wrong)
    with pytest.raises(InvalidId, match="worker_queue"):
        q.enqueue(1, tenant_id="t")
    assert q.queues.count() == 0


def test_a_worker_serves_several_pools(make_queue):
    """Every one of its worker queues is worked off, and none of the others."""
    q = make_queue(clock=None, worker_queue=by_kind)
    for kind in ("a", "b/c", "c"):
        add(q, kind, 20)
    seen, lock, done = [], threading.Lock(), threading.Event()

    def handle(delivery):
        with lock:
            seen.append(delivery.payload)
            if len(seen) == 40:
                done.set()

    worker = Worker(q, handle, worker_queue=["a", "b/c"], threads=3)
    worker.start()
    assert done.wait(20)
    worker.stop()
    assert sorted(seen) == ["a"] * 20 + ["b/c"] * 20
    assert q.queues.length("t") + q.worker_queues.length("c") == 20
    assert q.audit() == []
    for names in ([], [""], ["a", 3]):
        with pytest.raises((ConfigurationError, InvalidId)):
            Worker(q, handle, worker_queue=names)


def test_several_pools_are_asked_in_turn(make_queue):
    """A long line in the first does not keep the second waiting."""
    q = make_queue(worker_queue=by_kind)
    add(q, "a", 50)
    add(q, "b", 3)
    seen = []
    worker = Worker(q, lambda d: seen.append(d.payload), worker_queue=["a", "b"], threads=2)
    for _ in range(6):
        worker.run_once()
    assert seen.count("b") == 3


def test_each_pool_is_fair_by_itself(make_queue):
    """What a tenant was given in one pool is not counted against it in another."""
    q = make_queue(worker_queue=by_kind)
    add(q, "cpu", 300, tenant="a")
    for delivery in q.receive("cpu", max_messages=200):
        delivery.complete()
    for tenant in "abc":
        add(q, "gpu", 30, tenant=tenant)
    served = [d.tenant_id for d in q.receive("gpu", max_messages=30)]
    assert {tenant: served.count(tenant) for tenant in "abc"} == {"a": 10, "b": 10, "c": 10}


def test_no_more_ahead_than_the_mark(make_queue):
    """Each worker queue is filled up to worker_queue_max_depth, and no further."""
    q = make_queue(worker_queue=by_kind, worker_queue_max_depth=5)
    add(q, "a", 20)
    add(q, "b", 20)
    for _ in range(3):
        q.dispatcher.run_once()
    assert (q.worker_queues.length("a"), q.worker_queues.length("b")) == (5, 5)
    assert len(q.worker_queues.peek("a", limit=3)) == 3
    assert q.worker_queues.clear("a") == 5
    assert (q.worker_queues.length("a"), q.worker_queues.length("b")) == (0, 5)
    assert q.queues.length("t") == 35
    assert q.audit() == []


def test_what_nobody_takes_goes_back_from_its_pool_only(make_queue):
    """The pool without workers is given back and not filled again; the other one goes on."""
    q = make_queue(worker_queue=by_kind)
    add(q, "dead", 3)
    add(q, "live", 3)
    q.dispatcher.run_once()
    q.clock.advance(20)
    [first] = q.receive("live")
    first.complete()
    q.clock.advance(10)
    assert q.reclaimer.run_once() == 5
    q.dispatcher.run_once()
    assert q.worker_queues.length("dead") == 0
    assert len(q.receive("live", max_messages=5)) == 2
    assert [d.deliveries for d in q.receive("dead", max_messages=5)] == [1, 1, 1]
    assert q.audit() == []
