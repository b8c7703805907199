"""On a cluster of three masters: every shard on a node of its own choice, slots that move, nodes that come back."""

from __future__ import annotations

import os
import threading
from collections import Counter
from contextlib import suppress

import pytest

from batchqueue import BatchQueue
from fairqueue import ConcurrencyGroup, FairQueue, FixedDelay, Unavailable, Worker
from fairqueue.client import connect
from fairqueue.sharding import shard_of
from tests import cluster

pytestmark = pytest.mark.server
SHARDS = 8
TENANTS = [f"tenant-{i}" for i in range(40)]
LIMIT = [ConcurrencyGroup(name="t", group_id=lambda m: m.tenant_id, default_limit=2)]


@pytest.fixture(scope="module")
def nodes():
    with cluster.running() as started:
        yield started


@pytest.fixture
def queue(nodes, namespace):
    """A queue of eight shards on three masters that gives up soon."""
    with FairQueue.connect(
        nodes.url, namespace=namespace, shard_count=SHARDS, concurrency_groups=LIMIT, retry=FixedDelay(3, 0.01)
    ) as q:
        q.scripts.connection._patience = 0.2
        yield q


def tenant_of(shard):
    return next(tenant for tenant in TENANTS if shard_of(tenant, SHARDS) == shard)


def stored(nodes, root):
    """Every key of a shard with its content, on whatever node."""
    found = {}
    for node in nodes.nodes:
        for key in node.client.scan_iter(count=10_000):
            if key.startswith(root.encode()):
                with node.client.pipeline(transaction=False) as pipe:
                    found[key] = pipe.execute_command("ASKING").dump(key).execute()[1]
    return found


def test_everything_drains_over_all_masters(nodes, queue):
    """Shards lie on every master; work on all of them is done once, retries too, and nothing is left but counters."""
    assert {nodes.holder(queue.keys.root(shard)).port for shard in range(SHARDS)} == {n.port for n in nodes.nodes}
    done, lock, all_done = Counter(), threading.Lock(), threading.Event()

    def handle(delivery):
        if delivery.payload == 3 and delivery.attempt == 1:
            raise ValueError("once")
        with lock:
            done[delivery.tenant_id, delivery.payload] += 1
            if len(done) == 400:
                all_done.set()

    for tenant in TENANTS:
        queue.enqueue_batch(range(10), tenant_id=tenant)
    worker = Worker(queue, handle, threads=8)
    worker.start()
    assert all_done.wait(60)
    health = worker.health()
    worker.stop()
    assert health["fairqueue.wakeups"]
    assert set(done.values()) == {1}
    assert queue.audit() == []
    left = {key for shard in range(SHARDS) for key in stored(nodes, queue.keys.root(shard)) if b":idle:" not in key}
    assert left == {queue.keys.root(shard).encode() for shard in range(SHARDS)}


def test_whoever_waits_is_woken_whatever_the_node(queue, monkeypatch):
    """A worker and a caller of receive() that would not look for an hour hear of work on every shard."""
    monkeypatch.setattr("fairqueue.fetcher.LOOK", 3600.0)
    monkeypatch.setattr("fairqueue.consumer.LOOK", 3600.0)
    heard = {shard: threading.Event() for shard in range(SHARDS)}
    worker = Worker(queue, lambda d: heard[d.shard].set(), threads=2, dispatch=False)
    worker.start()
    for shard in range(SHARDS):
        queue.enqueue("x", tenant_id=tenant_of(shard))
        assert heard[shard].wait(10), shard
    worker.stop()
    for shard in range(SHARDS):
        later = threading.Timer(0.05, queue.enqueue, ["x"], {"tenant_id": tenant_of(shard)})
        later.start()
        assert [d.shard for d in queue.receive(wait=10)] == [shard]
        later.join()


def test_a_slot_that_moved_is_found(nodes, queue):
    """After a move the same queue goes on: what waits is taken, what is leased can be beaten and settled."""
    tenant, root = tenant_of(3), queue.keys.root(3)
    queue.enqueue_batch(range(6), tenant_id=tenant)
    held = queue.receive(max_messages=2)
    nodes.end_move(root, *nodes.begin_move(root))
    held[0].heartbeat()
    held[0].complete()
    nodes.end_move(root, *nodes.begin_move(root))
    held[1].complete()
    taken = []
    while found := queue.receive(max_messages=2):
        taken += [d.payload for d in found]
        for delivery in found:
            delivery.complete()
    assert taken == [2, 3, 4, 5]
    assert queue.enqueue("again", tenant_id=tenant).created
    assert queue.audit() == []


VERBS = {
    "enqueue": lambda q, tenant, held: q.enqueue("more", tenant_id=tenant),
    "bulk": lambda q, tenant, held: q.enqueue_batch(["more"], tenant_id=tenant),
    "receive": lambda q, tenant, held: q.leases.step(
        3, "default", want=1, call_id="x", timeout_ms=1000, worker="w", channel="", look_ms=1000
    ),
    "complete": lambda q, tenant, held: held.complete(),
    "heartbeat": lambda q, tenant, held: held.heartbeat(),
    "limit": lambda q, tenant, held: q.groups.set_limit("t", tenant, 7),
    "pause": lambda q, tenant, held: q.tenants.pause(tenant),
    "dispatch": lambda q, tenant, held: q.dispatcher.run_once(),
    "reclaim": lambda q, tenant, held: q.reclaimer.run_once(),
    "length": lambda q, tenant, held: q.queues.length(tenant),
    "stats": lambda q, tenant, held: q.stats(),
}


@pytest.mark.parametrize("moved", [0, 2, 1000])
def test_while_a_slot_moves_nothing_is_done_by_halves(nodes, queue, moved):
    """With none, some or all keys of a shard on the other node each call is refused, and no key changes on either."""
    tenant, root = tenant_of(3), queue.keys.root(3)
    queue.enqueue_batch(range(4), tenant_id=tenant)
    held = queue.receive()[0]
    queue.enqueue("late", tenant_id=tenant, delay=60)
    source, target = nodes.begin_move(root)
    nodes.move_keys(root, source, target, moved)
    before = stored(nodes, root)
    for name, verb in VERBS.items():
        with pytest.raises(Unavailable, match="moving"):
            verb(queue, tenant, held)
        assert stored(nodes, root) == before, name
    nodes.end_move(root, source, target)
    held.complete()
    while found := queue.receive(max_messages=10):
        for delivery in found:
            delivery.complete()
    assert queue.queues.length(tenant) == 1  # the late one
    assert queue.audit() == []


def test_shards_move_under_load(nodes, namespace):
    """Three shards change their node while producers and workers run: every message accepted is done, once."""
    done, lock = Counter(), threading.Lock()

    def handle(delivery):
        with lock:
            done[delivery.id] += 1

    accepted = set()
    with FairQueue.connect(nodes.url, namespace=namespace, shard_count=SHARDS) as q:
        worker = Worker(q, handle, threads=4)
        worker.start()
        ended = threading.Event()

        def produce(mine):
            while not ended.is_set():
                for tenant in mine:
                    with suppress(Unavailable):
                        accepted.add((tenant, q.enqueue("x", tenant_id=tenant).message_id))

        producers = [threading.Thread(target=produce, args=(TENANTS[i::2],)) for i in range(2)]
        for producer in producers:
            producer.start()
        for shard in (1, 4, 6, 1):
            root = q.keys.root(shard)
            source, target = nodes.begin_move(root)
            while nodes.move_keys(root, source, target, 1):
                pass
            nodes.end_move(root, source, target)
        ended.set()
        for producer in producers:
            producer.join()
        cluster.until(lambda: len(done) >= len(accepted))
        worker.stop()
        assert q.audit() == []
        assert q.inflight.count() == 0
    assert {message_id for _, message_id in accepted} == set(done)
    assert set(done.values()) == {1}


def test_a_node_that_was_gone_comes_back(namespace):
    """While a master is down its messages wait on disk; when it is back they are taken, by the same queue."""
    with cluster.running() as nodes, FairQueue.connect(nodes.url, namespace=namespace, shard_count=SHARDS) as q:
        q.scripts.connection._patience = 0.2
        for tenant in TENANTS:
            q.enqueue(tenant, tenant_id=tenant)
        gone = nodes.nodes[1]
        theirs = [t for t in TENANTS if nodes.holder(q.keys.root(shard_of(t, SHARDS))) is gone]
        assert theirs
        gone.kill()
        with pytest.raises(Unavailable):
            q.enqueue("x", tenant_id=theirs[0])
        gone.start()
        cluster.until(nodes.agrees)
        seen = []
        while found := q.receive(max_messages=50):
            seen += [d.payload for d in found]
            for delivery in found:
                delivery.complete()
        assert sorted(seen) == sorted(TENANTS)
        assert q.audit() == []


def test_a_client_for_one_server_is_told(nodes, namespace):
    """A plain client on a node of a cluster is refused with the way out, nothing written."""
    q = FairQueue.connect(f"redis://127.0.0.1:{nodes.nodes[0].port}", namespace=namespace, shard_count=SHARDS)
    with q, pytest.raises(Unavailable, match="RedisCluster"):
        q.start()  # which opens every shard


def test_batches_on_a_cluster(nodes, namespace):
    """Batches of tenants on every shard: items processed, completion called once each."""
    completed = Counter()
    all_done = threading.Event()

    with BatchQueue.connect(nodes.url, namespace=namespace, shard_count=SHARDS) as q:

        @q.on_process_item
        def process(item):
            return item.payload

        @q.on_batch_complete
        def complete(summary):
            completed[summary.batch_id] += 1
            if len(completed) == SHARDS:
                all_done.set()

        for shard in range(SHARDS):
            batch = q.initialize(f"b{shard}", tenant_id=tenant_of(shard))
            batch.add_many(range(20))
            batch.seal()
        q.start()
        assert all_done.wait(60)
        q.stop()
        assert q.audit() == []
    assert set(completed.values()) == {1}


def test_a_child_process_uses_the_parents_queue(nodes, queue):
    """After a fork the child enqueues through the same client, on connections of its own."""
    queue.enqueue("parent", tenant_id="t")
    child = os.fork()
    if child == 0:
        code = 1
        with suppress(BaseException):
            queue.enqueue("child", tenant_id="t")
            code = 0
        os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert sorted(d.payload for d in queue.receive(max_messages=5)) == ["child", "parent"]


def test_urls_of_clusters(nodes):
    """Several hosts, a port left out, TLS and a password are read; a database or a missing host is refused."""
    client = connect(nodes.url.partition(",")[0])
    assert len(client.get_primaries()) == 3
    client.close()
    with pytest.raises(Unavailable, match=r"no node of the cluster 127\.0\.0\.1:1 could be reached"):
        connect("rediss+cluster://user:secret@127.0.0.1:1")
