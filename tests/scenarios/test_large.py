"""Many of everything: each call stays small, listings show each thing once."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from fairqueue import ConcurrencyGroup, InvalidArgument, NewMessage, NoRetry, Worker

pytestmark = pytest.mark.server

MANY_GROUPS = ConcurrencyGroup(name="user", group_id=lambda m: str(m.payload), default_limit=None)


def pages(listing, limit):
    seen, cursor = [], None
    while True:
        page = listing(limit=limit, cursor=cursor)
        assert len(page) <= limit
        seen += page.items
        if (cursor := page.cursor) is None:
            return seen


class Commands:
    """Commands that each script call ran, at most: what a server is busy with while nobody else is served."""

    def __init__(self, q, client):
        self.q, self.client, self.most, self.names = q, client, 0, Counter()

    def __enter__(self):
        self.real = type(self.q.scripts).call
        counting = self

        def call(scripts, name, *args, **kwargs):
            before = counting.ran()
            try:
                return counting.real(scripts, name, *args, **kwargs)
            finally:
                counting.most = max(counting.most, counting.ran() - before)

        type(self.q.scripts).call = call
        return self

    def __exit__(self, *_):
        type(self.q.scripts).call = self.real

    def ran(self):
        self.names = Counter({name: one["calls"] for name, one in self.client.info("commandstats").items()})
        return sum(n for name, n in self.names.items() if name != "cmdstat_info")


@pytest.fixture
def large(make_queue):
    """A queue of 1,500 streams, one a user, and 300 tenants beside it."""
    q = make_queue(concurrency_groups=[MANY_GROUPS], retry=NoRetry(), tenant_order="oldest")
    q.enqueue_batch(range(1500), tenant_id="wide")
    q.enqueue_batch([NewMessage(payload=n, delay=100) for n in range(1500, 1520)], tenant_id="wide")
    for n in range(300):
        q.enqueue_batch(["a", "b"], tenant_id=f"t{n}")
    return q


def test_listings_show_each_thing_once(large):
    """Tenants, queues and messages, in pages of any size; a queue of many streams is one queue (C24)."""
    q = large
    assert sorted(pages(q.tenants.list, 77)) == sorted(["wide", *(f"t{n}" for n in range(300))])
    queues = pages(q.queues.list, 77)
    assert sorted((i.tenant_id, i.waiting) for i in queues) == sorted(
        [("wide", 1520), *((f"t{n}", 2) for n in range(300))]
    )
    assert (q.queues.length("wide"), q.queues.count()) == (1520, 301)
    for limit in (90, 500):
        messages = pages(lambda **page: q.messages.list("wide", **page), limit)
        assert [m.payload for m in messages] == list(range(1520))
    assert [m.state for m in messages[1498:1502]] == ["waiting", "waiting", "delayed", "delayed"]
    assert [m.payload for m in q.queues.peek("wide", limit=3)] == [0, 1, 2]
    with pytest.raises(InvalidArgument):
        q.messages.list("wide", cursor="nonsense")


def test_messages_of_one_time_have_one_order(make_queue):
    """Twenty of one due time, in pages of three: each once, in the order they came."""
    q = make_queue()
    q.enqueue_batch([NewMessage(payload=n, delay=5) for n in range(20)], tenant_id="t")
    q.enqueue_batch([NewMessage(payload=n, delay=4) for n in range(20, 25)], tenant_id="t")
    assert [m.payload for m in pages(lambda **page: q.messages.list("t", **page), 3)] == [*range(20, 25), *range(20)]


def test_a_page_goes_on_when_what_it_ended_at_is_gone(make_queue):
    """The cursor is a place in the order, not a message: nothing is passed over or shown twice."""
    q = make_queue()
    q.enqueue_batch(range(10), tenant_id="t")
    page = q.messages.list("t", limit=4)
    for message in page:
        assert q.messages.cancel("t", "default", message.message_id)
    assert [m.payload for m in q.messages.list("t", limit=4, cursor=page.cursor)] == [4, 5, 6, 7]


def test_looking_is_small_and_changes_nothing(large, redis_client, namespace):
    """No call of a listing or count runs more than a bounded number of commands; no KEYS, no key changed (C24)."""
    q = large
    taken = q.receive(max_messages=400)
    q.dispatcher.run_once()

    def state():
        keys = sorted(redis_client.scan_iter(f"{{{namespace}:*", count=1000))
        read = {
            b"hash": redis_client.hgetall,
            b"set": redis_client.smembers,
            b"zset": lambda key: redis_client.zrange(key, 0, -1, withscores=True),
            b"list": lambda key: redis_client.lrange(key, 0, -1),
            b"string": redis_client.get,
        }
        return {key: read[redis_client.type(key)](key) for key in keys}

    before, ran = state(), redis_client.info("commandstats")
    with Commands(q, redis_client) as commands:
        pages(q.tenants.list, 500)
        pages(q.queues.list, 500)
        pages(lambda **page: q.messages.list("wide", **page), 500)
        pages(q.inflight.list, 500)
        q.queues.count()
        q.queues.length("wide")
        q.queues.peek("wide", limit=500)
        q.groups.blocking("wide")
        q.groups.holders("user", str(taken[0].payload))
        q.worker_queues.peek()
        q.dead_letters.count("wide")
        q.stats()
    assert commands.most <= 1600  # a page of 500, three commands each; most run far fewer
    assert redis_client.info("commandstats").get("cmdstat_keys") == ran.get("cmdstat_keys")
    assert state() == before


def test_holders_are_found_among_many(make_queue):
    """A thousand leases and two that wait in a worker queue: all that hold the group, each once (C24)."""
    everybody = ConcurrencyGroup(name="all", group_id=lambda m: "all", default_limit=None)
    q = make_queue(concurrency_groups=[everybody], worker_queue=lambda m: "b" if m.payload >= 1000 else "a")
    q.enqueue_batch(range(1002), tenant_id="t")
    taken = q.receive("a", max_messages=1000)
    assert q.dispatcher.run_once() == 2
    holders = q.groups.holders("all", "all")
    assert len(holders) == len(set(holders)) == 1002
    assert {d.id for d in taken} <= {message_id for _, _, message_id in holders}


def test_one_of_many_is_withdrawn_from_a_worker_queue(make_queue):
    """Each of a long list, also those far from its head, goes back to its place."""
    q = make_queue(dispatch_batch_size=500, worker_queue_max_depth=1500)
    q.enqueue_batch(range(1500), tenant_id="t")
    assert sum(q.dispatcher.run_once() for _ in range(3)) == 1500
    ids = [message_id for _, _, message_id in q.worker_queues.peek(limit=500)]
    q.worker_queues.remove("t", "default", ids[499])
    assert q.messages.cancel("t", "default", ids[3])
    assert (q.worker_queues.length(), q.queues.length("t")) == (1498, 1)
    assert q.audit() == []


def test_a_receive_of_many_is_several_small_calls(make_queue, redis_client):
    """A thousand of as many tenants come from one receive(), and no call takes more than a hundred."""
    q = make_queue()
    for n in range(300):
        q.enqueue(n, tenant_id=f"t{n}")
    asked = []
    real = type(q.scripts).call
    try:
        type(q.scripts).call = lambda s, name, *a, **k: asked.append(k.get("want")) or real(s, name, *a, **k)
        taken = q.receive(max_messages=1000)
    finally:
        type(q.scripts).call = real
    assert len(taken) == 300
    assert max(n for n in asked if n is not None) <= 100
    assert q.audit() == []


def test_two_redrives_of_all_move_each_letter_once(make_queue):
    """While handlers fail at once: the counts add up, each runs once more, no copies (C23)."""
    q = make_queue(clock=None, retry=NoRetry())
    q.enqueue_batch(range(400), tenant_id="t")
    for delivery in q.receive(max_messages=400):
        delivery.fail("first")
    runs, counts = Counter(), []
    lock = threading.Lock()

    def handle(delivery):
        with lock:
            runs[delivery.payload] += 1
        raise ValueError("again")

    worker = Worker(q, handle, threads=4)
    worker.start()
    second = threading.Event()

    def redrive():
        counts.append(q.dead_letters.redrive_all("t"))

    def redrive_late():
        while not runs:
            second.wait(0.001)
        counts.append(q.dead_letters.redrive_all("t"))

    threads = [threading.Thread(target=redrive), threading.Thread(target=redrive_late)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _ in range(400):
        if q.dead_letters.count("t") == 400:
            break
        second.wait(0.025)
    worker.stop()

    assert sum(counts) == 400
    assert runs == Counter(range(400))
    letters = pages(lambda **page: q.dead_letters.list("t", **page), 100)
    assert sorted(letter.payload for letter in letters) == list(range(400))
    assert q.audit() == []


def test_a_redrive_that_begins_beside_another_takes_what_that_one_takes(make_queue, redis_client, namespace):
    """It does not move what died since; when both are over the next one does, and nothing is left behind."""
    q = make_queue(retry=NoRetry())
    store = q.dead_letters._store
    first = store.begin_redrive(0, "t", "one")
    q.clock.advance(5)
    assert store.begin_redrive(0, "t", "two") == first
    store.end_redrive(0, "t", "one")
    assert store.begin_redrive(0, "t", "three") == first
    for run in ("two", "three"):
        store.end_redrive(0, "t", run)
    assert store.begin_redrive(0, "t", "four") == first + 5000
    assert 0 < redis_client.pttl(q.keys.redriving(0, "t")) <= 10_000, "one that died is forgotten"
    store.end_redrive(0, "t", "four")
    assert not redis_client.exists(q.keys.redriving(0, "t"))


def test_a_resent_take_finds_its_leases_among_many(make_queue):
    """The same leases again, though others took and beat meanwhile (I10)."""
    q = make_queue()
    q.enqueue_batch(range(700), tenant_id="t")
    q.receive(max_messages=200)
    first = q.leases.step(0, "default", want=50, call_id="lost", timeout_ms=30_000)
    q.clock.advance(1)
    for delivery in q.receive(max_messages=300):
        delivery.heartbeat()
    again = q.leases.step(0, "default", want=50, call_id="lost", timeout_ms=30_000, again=True)
    assert [(lease.key, lease.token) for lease in again.leases] == [(lease.key, lease.token) for lease in first.leases]
    assert len(again.leases) == 50
    assert q.audit() == []


def test_the_loop_leaves_large_shards_alone(make_queue, redis_client, monkeypatch):
    """One audit reads a shard whole: the sweeper looks only where that is short, audit() looks always."""
    q = make_queue()
    q.enqueue_batch(range(5), tenant_id="t")
    q.receive(max_messages=5)
    redis_client.zrem(q.keys.part(0, "leases"), *redis_client.zrange(q.keys.part(0, "leases"), 0, 0))
    assert q.sweeper.run_once() > 0
    monkeypatch.setattr("fairqueue.sweeper.MOST", 2)
    assert q.sweeper.run_once() == 0
    assert q.audit() != []


def test_a_raised_limit_wakes_many_in_small_calls(make_queue, redis_client, namespace):
    """1,300 tenants wait for one group: no call wakes more than 500, all run, and nothing is left (I7)."""
    everybody = ConcurrencyGroup(name="all", group_id=lambda m: "all", default_limit=0)
    q = make_queue(concurrency_groups=[everybody])
    for n in range(1300):
        q.enqueue(n, tenant_id=f"t{n}")
    assert q.receive(max_messages=10) == []
    waiters = f"{{{namespace}:0}}:waiters:default/all=all"
    assert redis_client.zcard(waiters) == 1300
    q.scripts.call("set_limit", q.keys.root(0), group="all=all", limit="1200")  # whose caller is not heard of again
    assert redis_client.zcard(waiters) == 800
    q.reclaimer.run_once()
    assert redis_client.zcard(waiters) == 100
    taken = q.receive(max_messages=1000) + q.receive(max_messages=1000)
    assert len(taken) == 1200
    assert q.audit() == []
    q.groups.set_limit("all", "all", None)
    assert len(q.receive(max_messages=1000)) == 100
    assert not redis_client.exists(q.keys.part(0, "admitting"))
    assert q.audit() == []
