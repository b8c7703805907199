"""Redrive, purges, cancel, limits, opening, the audit."""

from __future__ import annotations

import pytest


def bury(shard, *names):
    for name in names:
        shard.add(name)
        [lease] = shard.take()
        shard.settle("bury", lease)


def test_redrive_moves_only_what_is_dead(shard):
    """1 for each that was dead; the others are untouched."""
    bury(shard, "a")
    shard.add("b")
    assert shard.call("redrive", ["t/q/a", "t/q/b", "t/q/none"]) == [1, 0, 0]
    assert shard.call("redrive", ["t/q/a"]) == [0]
    assert [key for key, _ in shard.take()] == ["t/q/b", "t/q/a"]


def test_redrive_into_a_parked_stream(shard):
    """A letter whose group is full joins those that wait."""
    shard.options(limits={"g": 1})
    bury(shard, "a")
    shard.add("b", "c")
    [lease] = shard.take()
    assert shard.take() == []
    assert shard.call("redrive", ["t/q/a"]) == [1]
    shard.settle("complete", lease)
    assert [key for key, _ in shard.take()] == ["t/q/c"]


def test_purge_dead_has_a_cutoff_and_a_bound(shard):
    """Letters up to a time, at most so many a call."""
    bury(shard, "a", "b")
    cut = shard.clock.now_ms()
    shard.clock.advance(1)
    bury(shard, "c")
    assert shard.call("purge_dead", tenant="t", before=cut, limit=1) == 1
    assert shard.call("purge_dead", tenant="t", before=cut, limit=10) == 1
    assert shard.call("purge_dead", tenant="t", before=cut, limit=10) == 0
    assert shard.find("c") == "dead"


def test_purge_queue_is_bounded(shard):
    """At most so many a call, over all streams of the queue; other queues stay."""
    shard.add("a", "b", "c")
    shard.add("d", due="+500", groups=())
    shard.add("other", queue="q2")
    assert shard.call("purge_queue", prefix="t/q/", limit=3) == 3
    assert shard.call("purge_queue", prefix="t/q/", limit=3) == 1
    assert shard.call("purge_queue", prefix="t/q/", limit=3) == 0
    assert shard.find("other", queue="q2") == "waiting"


def test_cancel_by_state(shard):
    """Waiting, delayed, parked and dispatched messages end; leased, dead and unknown ones do not."""
    bury(shard, "dead")
    shard.add("leased", "dispatched", "parked")
    shard.take(1)
    shard.call("dispatch", pool="default", n=1, depth=5)
    shard.client.hset(shard.root + ":clock:default", "asked", "")
    shard.call("dispatch", pool="default", n=1, depth=5)
    shard.add("delayed", due="+5")
    for name, ends in (("leased", 0), ("dead", 0), ("none", 0), ("dispatched", 1), ("parked", 1), ("delayed", 1)):
        assert shard.call("cancel", key=f"t/q/{name}") == ends, name
        assert shard.audit() == []
    assert shard.used() == 1


def test_a_raised_limit_wakes_as_many_as_there_is_room(shard):
    """Three waiters, room for two more: two are ready."""
    shard.options(limits={"g": 1})
    for tenant in "abcd":
        shard.add("m", tenant=tenant)
    assert len(shard.take()) == 1
    shard.call("set_limit", group="g=x", limit="3")
    assert shard.client.zcard(shard.root + ":act:default") == 2
    assert len(shard.take()) == 2
    shard.call("set_limit", group="g=x", limit="-1")
    assert len(shard.take()) == 1
    shard.call("set_limit", group="g=x", limit="")
    assert shard.client.hget(shard.root + ":groups", "g=x#") is None


def test_open_claims_once(shard):
    """The first settings stay; everybody is told them."""
    assert shard.call("open", schema=1, shards=4, owner="fairqueue") == [b"1", b"4", b"fairqueue"]
    assert shard.call("open", schema=2, shards=8, owner="batchqueue") == [b"1", b"4", b"fairqueue"]


@pytest.mark.broken
@pytest.mark.parametrize(
    ("break_it", "word"),
    [
        (lambda c, r: c.hincrby(r + ":groups", "g=x", 1), "slots"),
        (lambda c, r: c.hset(r + ":groups", "ghost=y", 1), "slots"),
        (lambda c, r: c.zrem(r + ":leases", "t/q/a"), "lease"),
        (lambda c, r: c.hdel(r + ":messages", "t/q/a"), "lease"),
        (lambda c, r: c.hdel(r + ":messages", "t/q/c"), "messages"),
        (lambda c, r: c.hdel(r + ":lease", "t/q/a"), "messages"),
        (lambda c, r: c.zrem(r + ":streams", "t/q/default/0/g=x"), "messages"),
        (lambda c, r: c.hdel(r + ":blocked", "t/q/default/0/g=x"), "stream"),
        (lambda c, r: c.delete(r + ":parked:default/g=x/t"), "stream"),
        (lambda c, r: c.hincrby(r, "completed", 1), "messages"),
    ],
)
def test_the_audit_sees_each_break(shard, break_it, word):
    """A slot too many, a lease without its half, a lost record, a stream in no place: each is found."""
    shard.add("a", "b", "c")
    shard.take()
    shard.take()
    assert shard.audit() == []
    break_it(shard.client, shard.root)
    assert word in shard.audit()
