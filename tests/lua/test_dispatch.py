"""Dispatch, give back, withdraw: messages ahead of their workers."""

from __future__ import annotations


def move(shard, n=10, depth=64):
    return shard.call("dispatch", pool="default", n=n, depth=depth)


def test_never_past_the_mark(shard):
    """The depth is checked in the script."""
    shard.options()
    shard.add(*"abcdef")
    assert move(shard, depth=4)[0] == 4
    assert move(shard, depth=4)[0] == 0
    assert shard.client.llen(shard.root + ":queue:default") == 4


def test_takes_slots_and_parks_what_is_blocked(shard):
    """What is dispatched holds its slots; the rest stands parked."""
    shard.add("a", "b", "c")
    assert move(shard)[0] == 2
    assert shard.used() == 2
    assert shard.client.hgetall(shard.root + ":blocked") == {b"t/q/default/0/g=x": b"g=x"}


def test_says_when_the_next_is_due(shard):
    """Milliseconds until the earliest delayed stream, -1 without one."""
    assert move(shard) == [0, -1]
    shard.add("a", due="+70")
    assert move(shard) == [0, 70]


def test_fills_for_those_who_wait_once_somebody_asked(shard):
    """After workers asked, only as many as wait now are dispatched ahead."""
    shard.options()
    shard.add("x")
    shard.take()
    shard.step(channel="nobody-listens")
    shard.client.zadd(
        shard.root + ":idle:default", {"one": shard.clock.now_ms() + 5000, "two": shard.clock.now_ms() + 5000}
    )
    shard.client.zrem(shard.root + ":idle:default", "nobody-listens")
    shard.call("set_limit", group="g=x", limit="0")
    shard.add(*"abcdef", groups=())
    shard.client.zadd(
        shard.root + ":idle:default", {"one": shard.clock.now_ms() + 5000, "two": shard.clock.now_ms() + 5000}
    )
    assert move(shard)[0] == 2


def test_given_back_by_age(shard):
    """Only what stood there long enough; it is not filled again until somebody asks."""
    shard.options()
    shard.add("a")
    move(shard)
    shard.clock.advance(ms=50)
    shard.add("b")
    move(shard)
    shard.clock.advance(ms=50)
    assert shard.call("give_back", pool="default", age=100, limit=10) == 1
    assert (shard.find("a"), shard.find("b")) == ("waiting", "dispatched")
    assert move(shard)[0] == 0
    assert shard.call("give_back", pool="default", age=-1, limit=10) == 1
    assert [key for key, _ in shard.take()] == ["t/q/a", "t/q/b"]


def test_withdraw_one(shard):
    """One dispatched message goes back to its place; one that is elsewhere does not move."""
    shard.add("a", "b", "c")
    move(shard)
    assert shard.call("withdraw", key="t/q/a") == 1
    assert shard.used() == 1
    for name in ("t/q/a", "t/q/c", "t/q/none"):
        before = shard.dump()
        assert shard.call("withdraw", key=name) == 0
        assert shard.dump() == before
    assert [key for key, _ in shard.take()] == ["t/q/b", "t/q/a"]
