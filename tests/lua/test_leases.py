"""Heartbeat, expired and reclaim."""

from __future__ import annotations

from fairqueue.keys import message_key


def deadline(shard, name="a"):
    return shard.client.zscore(shard.root + ":leases", message_key("t", "q", name))


def test_a_beat_moves_out_and_never_in(shard):
    """The deadline is the greater of what it was and a timeout from now."""
    shard.add("a")
    [lease] = shard.take(timeout=10_000)
    start = shard.clock.now_ms()
    assert shard.call("heartbeat", lease, timeout=1000) == [1]
    assert deadline(shard) == start + 10_000
    shard.clock.advance(9.5)
    assert shard.call("heartbeat", lease, timeout=1000) == [1]
    assert deadline(shard) == start + 10_500


def test_beats_of_many_answer_each(shard):
    """A stale token in the middle is 0 and changes nothing."""
    shard.options()
    shard.add("a", "b", "c")
    a, b, c = shard.take()
    shard.settle("complete", b)
    assert shard.call("heartbeat", [*a, *b, *c, "t/q/none", "x-1"], timeout=1000) == [1, 0, 1, 0]


def test_expired_lists_and_writes_nothing(shard):
    """Only leases past their deadline, the oldest first, at most as many as asked."""
    shard.options()
    shard.add("a", "b", "c")
    shard.take(1, timeout=100)
    shard.take(1, timeout=50)
    shard.take(1, timeout=5000)
    shard.clock.advance(ms=100)
    before = shard.dump()
    assert [part for part in shard.call("expired", limit=10) if isinstance(part, bytes)] == [
        b"t/q/b",
        b"c2-1",
        b"t/q/a",
        b"c1-1",
    ]
    assert len(shard.call("expired", limit=1)) == 4
    assert shard.dump() == before


def test_reclaim_checks_token_and_deadline_again(shard):
    """One that was beaten, settled or taken anew meanwhile is left alone."""
    shard.options()
    shard.add("a", "b", "c")
    a, b, c = shard.take()
    shard.clock.advance(2)
    assert len(shard.call("expired", limit=10)) == 12
    shard.call("heartbeat", a, timeout=1000)
    shard.settle("complete", b)
    assert shard.call("reclaim", [*a, "", *b, "", *c, ""]) == [0, 0, 1]
    assert [shard.find(name) for name in "abc"] == ["leased", None, "waiting"]
    before = shard.dump()
    assert shard.call("reclaim", [*c, ""]) == [0]
    assert shard.dump() == before


def test_reclaim_to_the_dead_letters(shard):
    """With a reason the message is dead, and the history says that the lease expired."""
    shard.add("a")
    [lease] = shard.take()
    shard.clock.advance(2)
    assert shard.call("reclaim", [*lease, "worker lost"]) == [1]
    assert shard.find("a") == "dead"
    assert shard.used() == 0


def test_a_reclaimed_message_goes_before_its_followers(shard):
    """It returns to its own place, also into a stream that is parked."""
    shard.options(limits={"g": 1})
    shard.add("a", "b")
    [lease] = shard.take()
    assert shard.take() == []
    shard.clock.advance(2)
    shard.call("reclaim", [*lease, ""])
    assert [key for key, _ in shard.take()] == ["t/q/a"]
