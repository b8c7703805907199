"""A pause holds through everything, and harms nobody else."""

from __future__ import annotations

import threading
import time

import pytest

from fairqueue import ConcurrencyGroup, FairQueue, Worker

pytestmark = pytest.mark.server
TENANT = ConcurrencyGroup(name="tenant", group_id=lambda m: m.tenant_id, default_limit=2)


def leftovers(redis_client, namespace):
    return [key for key in redis_client.scan_iter(f"{{{namespace}:*") if b"}:" in key]


def test_what_is_shown_of_a_pause(make_queue, redis_client, namespace):
    """Settings, listings and a message say so; resumed and drained, nothing is left."""
    q = make_queue(concurrency_groups=[TENANT])
    q.tenants.pause("t")
    q.queues.pause("u", "only")
    q.enqueue(1, tenant_id="t", message_id="m")
    q.enqueue(1, tenant_id="u", queue_id="only", message_id="m")
    q.enqueue(1, tenant_id="u", message_id="free")

    assert [q.tenants.settings(name).paused for name in "tu"] == [True, False]
    assert (q.queues.paused("u", "only"), q.queues.paused("u"), q.queues.paused("t")) == (True, False, False)
    assert {(i.tenant_id, i.queue_id): i.paused for i in q.queues.list()} == {
        ("t", "default"): True,
        ("u", "only"): True,
        ("u", "default"): False,
    }
    info = q.messages.get("t", "default", "m")
    assert (info.state, info.paused) == ("waiting", True)
    assert [m.paused for m in q.queues.peek("u", "only")] == [True]
    assert q.messages.get("u", "only", "m").paused
    assert not q.messages.get("u", "default", "free").paused
    assert q.groups.blocking("t") == []
    taken = q.receive(max_messages=5)
    assert [d.id for d in taken] == ["free"]
    assert q.audit() == []
    for _ in range(2):
        q.tenants.resume("t")
        q.queues.resume("u", "only")
    for delivery in [*taken, *q.receive(max_messages=5)]:
        delivery.complete()
    assert leftovers(redis_client, namespace) == []


def test_many_queues_resume_in_parts(make_queue, monkeypatch):
    """More streams than one call moves; a caller that dies in the middle is followed by the reclaimer."""
    monkeypatch.setattr("fairqueue.store.state.CHUNK", 10)
    q = make_queue()
    for n in range(35):
        q.enqueue(n, tenant_id="t", queue_id=f"q{n}")
    q.dispatcher.run_once()
    assert q.worker_queues.length() == 35
    q.tenants.pause("t")
    assert q.worker_queues.length() == 0
    assert q.receive(max_messages=50) == []
    q.scripts.call("resume", q.keys.root(0), what="t", limit=10)
    assert not q.tenants.settings("t").paused
    assert len(q.receive(max_messages=50)) == 10
    q.reclaimer.run_once()
    assert len(q.receive(max_messages=50)) == 25
    assert q.audit() == []


def test_no_burst_after_a_pause(make_queue):
    """Who was paused while others were served a thousand times gets its share, not what it missed."""
    q = make_queue()
    for tenant in "abc":
        q.enqueue_batch(range(600), tenant_id=tenant)
    q.tenants.pause("a")
    for _ in range(50):
        for delivery in q.receive(max_messages=20):
            assert delivery.tenant_id != "a"
            delivery.complete()
    q.tenants.resume("a")
    served = [d.tenant_id for d in q.receive(max_messages=60)]
    assert 19 <= served.count("a") <= 22


def test_prefetched_messages_of_a_paused_tenant_do_not_start(make_queue):
    """What a worker took ahead is handed back uncharged; nothing starts once the pause is 100 ms old."""
    q = make_queue(clock=None)
    started, gate = [], threading.Event()

    def handle(delivery):
        started.append((delivery.tenant_id, time.monotonic()))
        gate.wait(10)

    q.enqueue_batch(range(2), tenant_id="a")
    q.enqueue_batch(range(6), tenant_id="b")
    worker = Worker(q, handle, threads=2, prefetch=10)
    worker.start()
    until(lambda: q.inflight.count() == 8 and len(started) == 2)
    q.tenants.pause("b")
    threading.Event().wait(0.15)
    before = [tenant for tenant, _ in started].count("b")
    gate.set()
    until(lambda: q.inflight.count() == 0)
    worker.stop()
    assert [tenant for tenant, _ in started].count("b") == before
    q.tenants.resume("b")
    rest = q.receive(max_messages=9)
    assert len(rest) == 6 - before
    assert {(d.attempt, d.deliveries) for d in rest} <= {(1, 1)}
    assert q.audit() == []


def until(true, seconds=20):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        threading.Event().wait(0.01)


def test_a_pause_lasts_through_restarts(tmp_path):
    """Workers and server restart, a killed worker's message is reclaimed: nothing starts before resume (C07)."""
    started, busy = [], threading.Event()

    def handle(delivery):
        started.append((delivery.tenant_id, delivery.payload))

    def opened():
        return FairQueue.embedded(
            tmp_path, namespace="c07", visibility_timeout=0.6, reclaim_interval=0.1, concurrency_groups=[TENANT]
        )

    with opened() as q:
        q.enqueue_batch(range(12), tenant_id="a")
        lost, healthy = q.receive(max_messages=2)
        q.tenants.pause("a")
        q.tenants.pause("a")
        q.enqueue_batch(range(500), tenant_id="b")
        worker = Worker(q, handle, threads=4)
        worker.start()
        healthy.complete()
        until(lambda: q.messages.get("a", "default", lost.id).state == "waiting")
        worker.stop()

    with opened() as q:
        q.enqueue_batch(range(100, 105), tenant_id="a")
        assert (q.tenants.settings("a").paused, q.queues.length("a")) == (True, 16)

        def feed():
            while not busy.wait(0.01):
                q.enqueue(0, tenant_id="b")

        feeder = threading.Thread(target=feed)
        feeder.start()
        again = Worker(q, handle, threads=4)
        again.start()
        n = len(started)
        until(lambda: len(started) > n + 20)
        assert {tenant for tenant, _ in started} == {"b"}
        assert q.messages.get("a", "default", lost.id).attempt == 2

        q.tenants.resume("a")
        q.tenants.resume("a")
        until(lambda: [tenant for tenant, _ in started].count("a") == 16)
        busy.set()
        feeder.join()
        until(lambda: q.inflight.count() == 0)
        again.stop()
        assert len({payload for tenant, payload in started if tenant == "a"}) == 16
        assert q.audit() == []
