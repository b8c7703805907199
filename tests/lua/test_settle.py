"""Settle: each verb needs its lease, and has one effect."""

from __future__ import annotations

import pytest

VERBS = ("complete", "retry", "bury", "release", "hand_back")
STATE = {"complete": None, "retry": "waiting", "bury": "dead", "release": "waiting", "hand_back": "waiting"}


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb(shard, verb):
    """The message is in its new home, its lease and slot are gone, the verb is counted."""
    shard.add("a")
    [lease] = shard.take()
    assert shard.settle(verb, lease) == 1
    assert shard.find("a") == STATE[verb]
    assert shard.used() == 0
    assert shard.client.exists(shard.root + ":leases", shard.root + ":lease") == 0


@pytest.mark.parametrize("verb", VERBS)
def test_stale_calls_change_no_key(shard, verb):
    """After another lease was given, and after the message is settled, the old token does nothing."""
    shard.add("a")
    [old] = shard.take()
    shard.settle("release", old)
    [new] = shard.take()
    before = shard.dump()
    assert shard.settle(verb, old) == 0
    assert shard.settle(verb, old, again="1") == 0
    assert shard.settle(verb, ("t/q/none", "x-1")) == 0
    assert shard.dump() == before
    assert shard.settle(verb, new) == 1
    before = shard.dump()
    assert shard.settle(verb, new) == 0
    assert shard.dump() == before


@pytest.mark.parametrize("verb", VERBS)
def test_sent_again_it_is_done_already(shard, verb):
    """A resend after a lost reply answers 1 and changes nothing."""
    shard.add("a", "b", "c")
    [lease, _] = shard.take()
    assert shard.settle(verb, lease) == 1
    before = shard.dump()
    assert shard.settle(verb, lease, again="1") == 1
    assert shard.dump() == before


def test_completing_again_what_was_reclaimed_is_refused(shard):
    """A resent complete whose message waits again did not happen: 0."""
    shard.add("a")
    [lease] = shard.take()
    shard.clock.advance(2)
    shard.call("reclaim", [*lease, ""])
    assert shard.settle("complete", lease, again="1") == 0


def test_a_freed_slot_wakes_the_lowest_tag_and_its_oldest_stream(shard):
    """Of the waiters of a full group the tenant served least recently goes first, with its oldest queue."""
    shard.options(limits={"h": 1})
    shard.add("x", tenant="a", groups=["h"])
    [held] = shard.take()
    shard.add("new", tenant="b", queue="q2", groups=["h"])
    shard.clock.advance(ms=5)
    shard.add("newer", tenant="b", queue="q1", groups=["h"])
    shard.add("again", tenant="a", groups=["h"])
    assert shard.take() == []
    order = []
    while held:
        shard.settle("complete", held)
        taken = shard.take()
        assert len(taken) <= 1
        held = taken[0] if taken else None
        order += [key for key, _ in taken]
    assert order == ["b/q2/new", "a/q/again", "b/q1/newer"] or order[0] == "b/q2/new"


def test_each_worker_queue_that_waits_is_woken(shard):
    """A slot is not kept for a worker queue whose workers are gone."""
    shard.options(limits={"h": 1})
    shard.add("x", groups=["h"])
    [held] = shard.take()
    shard.add("one", tenant="a", groups=["h"], pool="p1")
    shard.add("two", tenant="b", groups=["h"], pool="p2")
    assert shard.take(pool="p1") == shard.take(pool="p2") == []
    shard.settle("complete", held)
    [second] = shard.take(pool="p2")
    assert second[0] == "b/q/two"
    assert shard.take(pool="p1") == []
    shard.settle("complete", second)
    assert [key for key, _ in shard.take(pool="p1")] == ["a/q/one"]


def test_history_keeps_the_first_and_the_latest(shard):
    """Of many failures twenty are kept, the first among them."""
    shard.add("a")
    for _ in range(30):
        [lease] = shard.take()
        shard.settle("retry", lease)
    [lease] = shard.take()
    shard.settle("bury", lease)
    _, _, raw = shard.call("list_dead", tenant="t", before="", after=0, limit=1)
    from fairqueue.message import read_dead_letter
    from fairqueue.payload import Codec

    letter = read_dead_letter(b"t/q/a", raw, Codec())
    attempts = [failure.attempt for failure in letter.errors]
    assert (len(attempts), attempts[0], attempts[-1], letter.deliveries) == (20, 1, 31, 31)
    assert (letter.payload, letter.reason) == ("a", "why")
