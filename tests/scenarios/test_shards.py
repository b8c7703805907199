"""Many shards end to end."""

from __future__ import annotations

import threading

import pytest

from fairqueue import ConcurrencyGroup, ConfigurationError, FixedDelay, NewMessage, SchemaMismatch, Worker
from fairqueue.client import connect
from fairqueue.sharding import shard_of

pytestmark = pytest.mark.server
TENANTS = [f"tenant-{i}" for i in range(40)]


def test_everything_drains_on_every_shard(make_queue, redis_client, namespace):
    """Two worker queues, delays, retries, a limit of one for each tenant: all done once, nothing left."""
    done, lock, all_done = [], threading.Lock(), threading.Event()
    q = make_queue(
        clock=None,
        shard_count=8,
        retry=FixedDelay(3, 0.01),
        worker_queue=lambda m: "gpu" if m.payload % 5 == 0 else "cpu",
        concurrency_groups=[ConcurrencyGroup(name="t", group_id=lambda m: m.tenant_id, default_limit=1)],
    )
    for tenant in TENANTS:
        q.enqueue_batch([NewMessage(payload=i, delay=0.05 if i == 3 else None) for i in range(10)], tenant_id=tenant)

    def handle(delivery):
        if delivery.payload == 7 and delivery.attempt == 1:
            raise ValueError("once")
        with lock:
            done.append((delivery.tenant_id, delivery.payload))
            if len(done) == 400:
                all_done.set()

    worker = Worker(q, handle, worker_queue=["cpu", "gpu"], threads=8)
    worker.start()
    assert all_done.wait(60)
    worker.stop()

    assert sorted(done) == sorted((tenant, i) for tenant in TENANTS for i in range(10))
    assert q.audit() == []
    assert q.inflight.count() == 0
    assert {shard_of(tenant, 8) for tenant in TENANTS} == set(range(8))
    left = {key.decode().partition("}")[2] for key in redis_client.scan_iter(f"{{{namespace}:*")}
    assert left <= {"", ":idle:cpu", ":idle:gpu"}


def test_work_on_any_shard_wakes_an_idle_worker(make_queue, monkeypatch):
    """Whatever shard a message lands on, the waiting process hears of it: it would not look by itself for an hour."""
    monkeypatch.setattr("fairqueue.fetcher.LOOK", 3600.0)
    heard = {tenant: threading.Event() for tenant in TENANTS}
    q = make_queue(clock=None, shard_count=8)
    worker = Worker(q, lambda delivery: heard[delivery.tenant_id].set(), threads=2, dispatch=False)
    worker.start()
    woken = []
    for tenant in TENANTS:
        q.enqueue("x", tenant_id=tenant)
        woken.append(heard[tenant].wait(20))
    looks = q.stats()
    worker.stop()

    assert all(woken)
    assert looks["dispatched"] == len(TENANTS)


def test_an_idle_worker_does_not_poll(make_queue, redis_client):
    """With eight shards and nothing to do, the commands of a second are a few."""
    q = make_queue(clock=None, shard_count=8)
    worker = Worker(q, lambda delivery: None, threads=2, dispatch=False)
    worker.start()
    threading.Event().wait(0.3)
    before = redis_client.info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"]
    threading.Event().wait(1)
    after = redis_client.info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"]
    worker.stop()

    assert after - before <= 8


def test_receive_takes_from_every_shard(make_queue):
    """One call asks as many shards as it needs."""
    q = make_queue(shard_count=8)
    for tenant in TENANTS:
        q.enqueue("x", tenant_id=tenant)
    taken = q.receive(max_messages=100)

    assert sorted(delivery.tenant_id for delivery in taken) == sorted(TENANTS)
    assert q.queues.count() == 0
    for delivery in taken:
        delivery.complete()
    assert q.stats()["completed"] == 40


@pytest.mark.parametrize("wrong", [4, 9])
def test_another_shard_count_is_refused(make_queue, wrong, namespace, server_url):
    """Tenants would be looked for on the wrong shard: refused before anything is written, with the way out."""
    from fairqueue import FairQueue, FairQueueOptions

    q = make_queue(shard_count=8)
    q.enqueue("x", tenant_id="a")
    client = connect(server_url)
    other = FairQueue(client, FairQueueOptions(namespace=namespace, shard_count=wrong), clock=q.clock)
    for tenant in TENANTS[:5]:
        with pytest.raises(SchemaMismatch, match="shard_count 8"):
            other.enqueue("x", tenant_id=tenant)
        with pytest.raises(SchemaMismatch):
            other.receive()
    client.close()


def test_a_group_must_belong_to_one_shard(make_queue):
    """Its id is the shard key or begins with it, else a limit would be enforced loosely: refused at enqueue."""

    def grouped(group_id, **options):
        return make_queue(
            shard_count=8,
            concurrency_groups=[ConcurrencyGroup(name="g", group_id=group_id, default_limit=1)],
            **options,
        )

    with pytest.raises(ConfigurationError, match="shard_by"):
        grouped(lambda m: "everybody").enqueue("x", tenant_id="a")
    with pytest.raises(ConfigurationError, match="shard key"):
        grouped(lambda m: ("b", m.tenant_id)).enqueue("x", tenant_id="a")
    assert grouped(lambda m: (m.tenant_id, "city")).enqueue("x", tenant_id="a").created

    def org(tenant_id):
        return tenant_id.partition("-")[0]

    q = grouped(lambda m: org(m.tenant_id), shard_by=org)
    for tenant in TENANTS:
        q.enqueue("x", tenant_id=tenant)
    assert [d.tenant_id for d in q.receive(max_messages=100)].count("a") == 1
    assert len(q.receive(max_messages=100)) == 0
    assert q.groups.usage("g", "tenant") == (1, 1)
    assert len({q.tenants.shard(tenant) for tenant in TENANTS}) == 1
