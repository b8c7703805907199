"""Step: settle, dispatch and take in one call, safe to send twice."""

from __future__ import annotations


def test_takes_what_is_asked_and_allowed(shard):
    """No more than wanted, no more than the group's limit; more says whether ready work is left."""
    shard.add("a", "b", "c")
    assert shard.step(1)[1:3] == ([("t/q/a", "c1-1")], 1)
    assert shard.step(5)[1:3] == ([("t/q/b", "c2-1")], 0)
    assert shard.used() == 2


def test_settling_makes_room_in_the_same_call(shard):
    """What ends in a call frees its slot for what the call takes."""
    shard.add("a", "b", "c")
    leases = shard.take()
    settled, taken, _, _ = shard.step(5, settle=[("complete", *leases[0])])
    assert (settled, taken) == ([1], [("t/q/c", "c2-1")])


def test_sent_again_gives_the_same_leases(shard):
    """A call whose reply was lost finds its own leases, takes nothing new and settles nothing twice."""
    shard.add("a", "b", "c")
    [lease] = shard.take(1, call_id="x")
    settle = [("complete", *lease)]
    first = shard.step(1, settle=settle, call_id="y")
    before = shard.dump()
    second = shard.step(1, settle=settle, call_id="y", again="1")
    assert (second[0], second[1]) == ([1], first[1])
    assert shard.dump() == before


def test_sent_again_for_the_first_time(shard):
    """A request that never arrived does its work when it is sent again."""
    shard.add("a")
    assert shard.take(2, call_id="z", again="1") == [("t/q/a", "z-1")]


def test_dispatched_messages_come_first(shard):
    """What stands in the worker queue is taken before anything else is dispatched."""
    shard.options()
    shard.add("a", "b", "c")
    shard.call("dispatch", pool="default", n=2, depth=10)
    shard.add("first", tenant="s", queue="q")
    assert [key for key, _ in shard.take(3)] == ["t/q/a", "t/q/b", "s/q/first"]


def test_nothing_is_taken_when_nothing_is_wanted(shard):
    """A call may only settle."""
    shard.add("a", "b")
    [lease] = shard.take(1)
    settled, taken, _, _ = shard.step(0, settle=[("complete", *lease)])
    assert (settled, taken) == ([1], [])
    assert shard.used() == 0


def test_a_stale_settlement_changes_nothing(shard):
    """A wrong token is answered 0, and its neighbours are settled."""
    shard.add("a", "b")
    [a, b] = shard.take()
    settled, _, _, _ = shard.step(0, settle=[("complete", a[0], "other-1"), ("complete", *b)])
    assert settled == [0, 1]
    assert shard.find("a") == "leased"
