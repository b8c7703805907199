"""Looking at a queue that runs, and taking things out of it."""

from __future__ import annotations

import pytest

from fairqueue import ConcurrencyGroup, InvalidArgument, NoRetry

pytestmark = pytest.mark.server

TENANT = ConcurrencyGroup(name="tenant", group_id=lambda m: m.tenant_id, default_limit=2)


def test_listings_show_each_thing_once(make_queue):
    """Pages of tenants and queues, over several shards, add up; what is drained is not listed."""
    q = make_queue(shard_count=3)
    for n in range(7):
        for name in ("a", "b/c", "ab"):
            q.enqueue_batch([1, 2], tenant_id=f"t{n}", queue_id=name)

    def everything(listing):
        seen, cursor = [], None
        while True:
            page = listing(limit=4, cursor=cursor)
            seen += page.items
            assert len(page) <= 4
            if (cursor := page.cursor) is None:
                return seen

    assert sorted(everything(q.tenants.list)) == [f"t{n}" for n in range(7)]
    queues = everything(q.queues.list)
    assert sorted((i.tenant_id, i.queue_id, i.waiting) for i in queues) == sorted(
        (f"t{n}", name, 2) for n in range(7) for name in ("a", "b/c", "ab")
    )
    assert [i.queue_id for i in q.queues.list("t3")] == ["a", "ab", "b/c"]
    assert q.queues.count() == 21
    assert q.tenants.purge("t3") == 6
    assert q.queues.count() == 18
    assert q.audit() == []
    with pytest.raises(InvalidArgument):
        q.queues.list(limit=0)
    with pytest.raises(InvalidArgument):
        q.queues.list(cursor="nonsense")


def test_peek_shows_the_order_and_touches_nothing(make_queue):
    """The next messages in their order, delayed ones marked."""
    q = make_queue()
    q.enqueue("later", tenant_id="t", delay=9)
    q.enqueue_batch(["a", "b"], tenant_id="t")

    seen = q.queues.peek("t", limit=5)
    assert [(m.payload, m.state) for m in seen] == [("a", "waiting"), ("b", "waiting"), ("later", "delayed")]
    assert [m.payload for m in q.queues.peek("t", limit=1)] == ["a"]
    assert q.queues.length("t") == 3


def test_a_message_can_be_cancelled_until_it_is_taken(make_queue):
    """Waiting, delayed, parked and dispatched messages end, counted, their slots free; a leased one does not."""
    q = make_queue(concurrency_groups=[TENANT])
    for name in ("leased", "dispatched", "parked", "parked2"):
        q.enqueue(name, tenant_id="t", message_id=name)
    q.enqueue("delayed", tenant_id="t", message_id="delayed", delay=5)
    [leased] = q.receive()
    assert q.dispatcher.run_once() in {0, 1}
    assert not q.messages.cancel("t", "default", "leased")
    for name in ("dispatched", "parked", "delayed"):
        assert q.messages.cancel("t", "default", name), name
        assert not q.messages.cancel("t", "default", name)
        assert q.audit() == []
    assert q.stats()["cancelled"] == 3
    leased.complete()
    assert [d.payload for d in q.receive(max_messages=5)] == ["parked2"]
    assert q.audit() == []


def test_cancelling_a_woken_waiter_passes_the_slot_on(make_queue):
    """A stream that was woken for a free slot and emptied wakes the next one."""
    shared = ConcurrencyGroup(name="all", group_id=lambda m: "one", default_limit=1)
    q = make_queue(concurrency_groups=[shared])
    q.enqueue("x", tenant_id="a")
    [held] = q.receive()
    q.enqueue("y", tenant_id="b", message_id="y")
    q.enqueue("z", tenant_id="c")
    assert q.receive() == []
    held.complete()
    assert q.messages.cancel("b", "default", "y")
    assert [d.payload for d in q.receive()] == ["z"]
    assert q.audit() == []


def test_purging_a_queue_leaves_what_runs(make_queue):
    """Waiting and delayed messages end; a delivery under way goes on."""
    q = make_queue(concurrency_groups=[TENANT])
    q.enqueue_batch(range(1200), tenant_id="t")
    q.enqueue(1, tenant_id="t", delay=5)
    q.enqueue("other", tenant_id="t", queue_id="second")
    [taken] = q.receive()

    assert q.queues.purge("t") == 1200
    taken.complete()
    assert [d.payload for d in q.receive(max_messages=5)] == ["other"]
    assert q.stats()["dropped"] == 1200
    assert q.audit() == []


def test_who_holds_and_what_blocks(make_queue):
    """Holders name the messages that have slots; blocking names every full group, in the order declared."""
    org = ConcurrencyGroup(name="org", group_id=lambda m: ("o", "p,q"), default_limit=1)
    q = make_queue(concurrency_groups=[TENANT, org])
    q.enqueue_batch(range(3), tenant_id="t")
    assert q.groups.blocking("t") == []
    [taken] = q.receive(max_messages=5)

    assert q.groups.holders("tenant", "t") == [("t", "default", taken.id)]
    [full] = q.groups.blocking("t")
    assert (full.name, full.group_id, full.current, full.limit) == ("org", ("o", "p,q"), 1, 1)
    q.groups.set_limit("tenant", "t", 1)
    assert [group.name for group in q.groups.blocking("t")] == ["tenant", "org"]


def test_worker_queues_can_be_seen_and_thinned(make_queue):
    """Peek shows the order, remove gives one back to its place (wq-5, wq-6)."""
    q = make_queue()
    q.enqueue_batch(["a", "b", "c"], tenant_id="t")
    q.dispatcher.run_once()
    ids = [message_id for _, _, message_id in q.worker_queues.peek()]

    assert q.worker_queues.remove("t", "default", ids[1])
    assert not q.worker_queues.remove("t", "default", ids[1])
    assert [message_id for _, _, message_id in q.worker_queues.peek()] == [ids[0], ids[2]]
    assert q.messages.get("t", "default", ids[1]).state == "waiting"
    assert [d.payload for d in q.receive(max_messages=5)] == ["a", "c", "b"]
    assert q.audit() == []


def test_deliveries_under_way_are_listed(make_queue):
    """Who runs, since when, until when."""
    q = make_queue(retry=NoRetry())
    q.enqueue_batch(range(5), tenant_id="t")
    taken = q.receive(max_messages=5)

    page = q.inflight.list(limit=3)
    rest = q.inflight.list(limit=3, cursor=page.cursor)
    assert {i.token for i in [*page, *rest]} == {d.token for d in taken}
    assert rest.cursor is None
    assert (page.items[0].deadline - page.items[0].since).total_seconds() == 30


def test_stats_say_what_was_counted_and_what_is_where(make_queue):
    """Every counter is there from the start; what is where adds up, over all shards."""
    q = make_queue(shard_count=3)
    assert set(q.stats().values()) == {0}
    for n in range(6):
        q.enqueue_batch([1, 2], tenant_id=f"t{n}")
        q.enqueue(3, tenant_id=f"t{n}", delay=60)
    q.receive()[0].complete()
    q.receive()[0].fail("x")
    q.receive()
    moved = q.dispatcher.run_once()
    stats = q.stats()
    assert (stats["enqueued"], stats["completed"], stats["dead"], stats["dead_letters"]) == (18, 1, 1, 1)
    assert (stats["in_flight"], stats["in_worker_queues"]) == (1, moved)
    assert stats["waiting"] == 18 - 3 - moved
    assert q.dead_letters.purge("t0") + sum(q.dead_letters.purge(f"t{n}") for n in range(1, 6)) == 1
    assert (q.stats()["dead_letters"], q.stats()["purged"]) == (0, 1)
