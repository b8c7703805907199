"""Pause and resume: of a tenant, of a queue; outside every scan."""

from __future__ import annotations

import pytest


def pause(shard, what="t", limit=500):
    return shard.call("pause", what=what, limit=limit)


def resume(shard, what="t", limit=500):
    return shard.call("resume", what=what, limit=limit)


def taken(shard, n=10):
    return [key for key, _ in shard.take(n)]


@pytest.mark.parametrize("what", ["t", "t/q"])
def test_nothing_starts_while_paused(shard, what):
    """What was paused stands parked, others are served; afterwards all is in its order."""
    shard.options()
    shard.add("a", "b")
    pause(shard, what)
    shard.add("c")
    shard.add("other", tenant="u")
    shard.add("second", queue="q2")
    assert sorted(taken(shard)) == (["u/q/other"] if what == "t" else ["t/q2/second", "u/q/other"])
    assert shard.client.zscore(shard.root + ":act:default", "t") is None
    assert resume(shard, what) == 0
    assert [key for key in taken(shard) if "/q/" in key] == ["t/q/a", "t/q/b", "t/q/c"]
    assert shard.client.exists(shard.root + ":paused", shard.root + ":resuming") == 0


def test_a_pause_may_come_first_and_twice(shard):
    """Before anything exists; the second time keeps the first one's moment, and one resume ends both."""
    pause(shard)
    since = shard.client.hget(shard.root + ":paused", "t")
    shard.clock.advance(5)
    pause(shard)
    assert shard.client.hget(shard.root + ":paused", "t") == since
    shard.add("a")
    assert taken(shard) == []
    resume(shard)
    before = shard.dump()
    assert resume(shard) == 0
    assert shard.dump() == before
    assert taken(shard) == ["t/q/a"]


def test_what_was_dispatched_goes_back(shard):
    """Of every worker queue, a part a call; slots are free, others stay."""
    shard.options()
    shard.add("a", "b", "c")
    shard.add("d", pool="p2", queue="q2")
    shard.add("other", tenant="tt")
    for pool in ("default", "p2"):
        shard.call("dispatch", pool=pool, n=9, depth=9)
    assert pause(shard, limit=3) == 3
    assert pause(shard, limit=3) == 1
    assert shard.used() == 1
    assert [shard.find(name) for name in "abc"] == ["waiting"] * 3
    assert taken(shard) == ["tt/q/other"]
    assert shard.take(pool="p2") == []
    resume(shard)
    assert taken(shard) == ["t/q/a", "t/q/b", "t/q/c"]


def test_leases_go_on(shard):
    """Beating, completing, failing, reclaiming: all as ever; what comes back waits."""
    shard.options()
    shard.add(*"abcd")
    a, b, c, _ = shard.take()
    pause(shard)
    assert shard.call("heartbeat", a, timeout=1000) == [1]
    assert shard.settle("complete", a) == 1
    assert shard.settle("retry", b) == 1
    assert shard.settle("release", c, delay=50) == 1
    shard.clock.advance(2)
    keys = shard.call("expired", limit=9)
    assert shard.call("reclaim", [keys[0], keys[1], ""]) == [1]
    assert taken(shard) == []
    resume(shard)
    assert taken(shard) == ["t/q/d", "t/q/b", "t/q/c"]


def test_delays_run_while_paused(shard):
    """What fell due is there at resume, what did not keeps its time."""
    shard.add("soon", due="+100")
    shard.add("later", due="+300", queue="q2")
    pause(shard)
    shard.clock.advance(ms=200)
    assert taken(shard) == []
    resume(shard)
    assert taken(shard) == ["t/q/soon"]
    shard.clock.advance(ms=99)
    assert taken(shard) == []
    shard.clock.advance(ms=1)
    assert taken(shard) == ["t/q2/later"]


def test_a_full_group_behind_a_pause(shard):
    """A slot that falls free goes past the paused one to who may use it."""
    shard.options(limits={"g": 1})
    shard.add("x", tenant="s")
    [held] = shard.take()
    shard.add("a")
    shard.add("b", tenant="u")
    assert taken(shard) == []
    pause(shard)
    shard.settle("complete", held)
    assert taken(shard) == ["u/q/b"]
    resume(shard)
    assert taken(shard) == []
    assert shard.client.hget(shard.root + ":blocked", "t/q/default/0/g=x") == b"g=x"


def test_a_queue_and_its_tenant(shard):
    """Both pauses must end."""
    shard.add("a")
    pause(shard, "t")
    pause(shard, "t/q")
    assert taken(shard) == []
    resume(shard, "t")
    assert taken(shard) == []
    resume(shard, "t/q")
    assert taken(shard) == ["t/q/a"]


def test_resuming_is_bounded_and_can_be_taken_up(shard):
    """A part of the streams a call; another process finishes what one began, unless it is paused again."""
    shard.options()
    for n in range(6):
        shard.add("m", queue=f"q{n}")
    pause(shard)
    assert taken(shard) == []
    assert resume(shard, limit=2) == 1
    assert len(taken(shard)) == 2
    assert resume(shard, "", limit=2) == 1
    pause(shard)
    assert resume(shard, "") == 0
    assert taken(shard) == []
    assert resume(shard) == 0
    assert len(taken(shard)) == 4
    assert resume(shard, "") == 0


def test_ends_of_paused_messages(shard):
    """Cancelled and purged while they stand parked, they are gone; later ones are held back as well."""
    shard.add("a", "b")
    shard.add("c", queue="q2")
    pause(shard)
    assert taken(shard) == []
    assert shard.call("cancel", key="t/q/a") == 1
    assert shard.call("purge_queue", prefix="t/q/", limit=9) == 1
    shard.add("d")
    assert taken(shard) == []
    resume(shard)
    assert sorted(taken(shard)) == ["t/q/d", "t/q2/c"]


def test_the_cost_of_others_does_not_grow(shard):
    """A thousand parked streams of a paused tenant are not looked at when another one is served."""
    shard.options()
    for n in range(200):
        shard.add("m", queue=f"q{n}", groups=())
    pause(shard)
    while shard.step()[2]:
        pass

    def commands():
        stats = shard.client.info("commandstats")
        return sum(row["calls"] for row in stats.values())

    shard.add("x", tenant="u", groups=())
    before = commands()
    assert taken(shard, 1) == ["u/q/x"]
    assert commands() - before < 40


@pytest.mark.broken
def test_the_audit_sees_a_stream_whose_pause_is_gone(shard):
    """A pause that vanished leaves its streams behind: found."""
    shard.add("a")
    pause(shard)
    assert taken(shard) == []
    shard.client.delete(shard.root + ":paused")
    assert "stream" in shard.audit()
