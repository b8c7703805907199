"""Limits that callables give: known before anything starts, renewed, forgotten with the last message."""

from __future__ import annotations

import pytest

LIVE = {"g": True}


@pytest.fixture
def live(shard):
    shard.options(limits={"g": 3}, live=LIVE)
    return shard


def fields(shard):
    return {k.decode(): v.decode() for k, v in shard.client.hgetall(shard.root + ":groups").items()}


def stale(shard, ttl=5000, limit=10):
    due, *groups = shard.call("stale_limits", ttl=ttl, limit=limit)
    return due, [group.decode() for group in groups]


def test_what_came_with_the_message_counts(live):
    """The limit that was asked for at enqueue beats the default, and goes with the last message."""
    live.add("a", "b", said=("g=x", "1", 0))
    assert fields(live) == {"g=x?": "1", "g=x+": "1"}
    [lease] = live.take()
    assert live.take() == []
    live.settle("complete", lease)
    [lease] = live.take()
    assert fields(live) == {"g=x": "1", "g=x?": "1"}
    live.settle("complete", lease)
    assert fields(live) == {}
    assert live.client.exists(live.root + ":asked") == 0


def test_the_first_answer_stays_until_it_is_renewed(live):
    """Another producer's answer does not replace one that is known; a message that is there already adds nothing."""
    live.add("a", said=("g=x", "1", 0))
    live.add("b", said=("g=x", "9", 0), call_id=b"another0")
    assert fields(live)["g=x?"] == "1"
    for lease in (*live.take(), *live.take()):
        live.settle("complete", lease)
    assert len(live.take()) == 1
    assert live.add("b", said=("g=x", "9", 0), call_id=b"third000") == [0]


def test_an_id_that_lives_leaves_no_limit_behind(live):
    """An enqueue that creates nothing remembers nothing."""
    live.add("dead", groups=("g",), said=("g=x", "1", 0))
    [lease] = live.take()
    live.settle("bury", lease)
    assert live.add("dead", said=("g=x", "1", 0), call_id=b"another0") == [0]
    assert fields(live) == {}
    assert live.client.exists(live.root + ":asked") == 0


@pytest.mark.parametrize(("said", "start"), [("0", 0), ("2", 2), ("-1", 4), ("~", 3), ("~1", 1)])
def test_answers(live, said, start):
    """0 pauses, -1 is unlimited, a callable that failed leaves its last answer or the default."""
    live.add(*"abcd", said=("g=x", said, 0))
    assert len(live.take()) == start


def test_nothing_starts_before_the_limit_is_known(live):
    """Without an answer the group is full, and the next look asks for it at once."""
    live.add("a", "b")
    assert live.take() == []
    assert stale(live) == (1000, ["g=x"])
    live.call("renew_limits", ["g=x", "1"])
    assert len(live.take()) == 1


def test_set_at_run_time_beats_the_callable(live):
    """And clearing it goes back to what the callable said."""
    live.add(*"abcd", said=("g=x", "1", 0))
    live.call("set_limit", group="g=x", limit="3")
    assert len(live.take()) == 3
    live.call("renew_limits", ["g=x", "4"])
    assert live.take() == []
    live.call("set_limit", group="g=x", limit="")
    assert len(live.take()) == 1


def test_stale_ones_are_given_to_one_at_a_time(shard):
    """The longest ago first, a page at most; for a second they are nobody else's, until they are renewed."""
    shard.options(limits={}, live={"a": True, "b": True, "c": True})
    for name, age in (("a", 1000), ("b", 3000), ("c", 2000)):
        shard.add("m", tenant=name, groups=(name,), said=(f"{name}=x", "1", age))
    shard.clock.advance(3)
    assert stale(shard, limit=2) == (1000, ["b=x", "c=x"])
    assert stale(shard, limit=2) == (1000, [])
    shard.call("renew_limits", ["b=x", "2"])
    shard.clock.advance(1)
    assert stale(shard) == (1000, ["a=x", "c=x"])


def test_renewed_limits_wake_as_many_as_there_is_room(live):
    """Up wakes, down grants nothing, a failure changes nothing."""
    for tenant in "abcdef":
        live.add("m", tenant=tenant, said=("g=x", "1", 0))
    held = live.take()
    assert len(held) == 1
    live.take()
    live.call("renew_limits", ["g=x", "3"])
    assert live.client.zcard(live.root + ":act:default") == 2
    held += live.take()
    live.call("renew_limits", ["g=x", "~7"])
    assert fields(live)["g=x?"] == "3"
    live.call("renew_limits", ["g=x", "2"])
    live.settle("complete", held.pop())
    assert live.take() == []
    live.settle("complete", held.pop())
    assert len(live.take()) == 1


def test_waking_is_bounded_and_goes_on(live):
    """A thousand a call, over all its groups; what could wake more is due again at once."""
    live.options(limits={}, live={"g": True, "h": True})
    for n in range(1100):
        live.add("m", tenant=f"t{n}", groups=("g", "h") if n % 2 else ("h",), said=("g=x", "0", 0))
        live.add("m", tenant=f"t{n}", queue="q2", groups=("h",), said=("h=x", "0", 0), call_id=b"another0")
    while live.step()[2]:
        pass
    live.call("renew_limits", ["g=x", "-1", "h=x", "-1"])
    woken = 2200 - live.client.hlen(live.root + ":blocked")
    assert woken == 1000
    for _ in range(3):
        for group in stale(live)[1]:
            live.call("renew_limits", [group, "-1"])
    assert live.client.hlen(live.root + ":blocked") == 0
    assert stale(live)[1] == []


def test_renewing_what_is_gone_leaves_nothing(live):
    """A group whose last message ended meanwhile is not remembered."""
    live.add("a", said=("g=x", "1", 0))
    [lease] = live.take()
    live.settle("complete", lease)
    live.call("renew_limits", ["g=x", "5"])
    assert fields(live) == {}
    assert live.client.exists(live.root + ":asked") == 0


@pytest.mark.parametrize("verb", ["retry", "release", "hand_back", "reclaim", "give_back", "withdraw", "redrive"])
def test_the_limit_stays_while_a_message_lives(live, verb):
    """However a message goes back, its group keeps its limit, or is asked for it again."""
    live.add("a", said=("g=x", "1", 0))
    if verb in {"give_back", "withdraw"}:
        live.call("dispatch", pool="default", n=1, depth=10)
        live.call(verb, **({"key": "t/q/a"} if verb == "withdraw" else {"pool": "default", "age": -1, "limit": 10}))
    elif verb == "reclaim":
        [lease] = live.take(timeout=0)
        live.call("reclaim", [*lease, ""])
    elif verb == "redrive":
        [lease] = live.take()
        live.settle("bury", lease)
        live.call("redrive", ["t/q/a"])
        assert stale(live)[1] == ["g=x"]
        live.call("renew_limits", ["g=x", "1"])
    else:
        [lease] = live.take()
        live.settle(verb, lease)
    assert fields(live) == {"g=x?": "1", "g=x+": "1"}
    [lease] = live.take()
    live.settle("complete", lease)
    assert live.client.exists(live.root + ":groups", live.root + ":asked") == 0


@pytest.mark.parametrize(
    ("end", "rest"), [("cancel", {"key": "t/q/a"}), ("purge_queue", {"prefix": "t/q/", "limit": 9})]
)
def test_ends_of_waiting_messages_forget_it_too(live, end, rest):
    """Cancelled or purged, the last message takes the limit along."""
    live.add("a", said=("g=x", "0", 0))
    live.take()
    live.call(end, **rest)
    assert fields(live) == {}
    assert live.client.exists(live.root + ":asked") == 0


def test_messages_from_before_the_callable_are_asked_for(live):
    """A group gets a callable while messages of it wait: nothing is loose, each is done."""
    live.options(limits={"g": 3})
    live.add(*"abcde")
    live.options(limits={"g": 3}, live=LIVE)
    assert live.take() == []
    done = 0
    for _ in range(10):
        for group in stale(live)[1]:
            live.call("renew_limits", [group, "2"])
        leases = live.take()
        assert len(leases) <= 2
        for lease in leases:
            live.settle("complete", lease)
            done += 1
        live.clock.advance(1)
    assert done == 5
    assert live.client.exists(live.root + ":groups", live.root + ":asked") == 0


def test_one_from_before_the_callable_is_not_left_behind(live):
    """The last message that was counted ends; an older one still stands parked, and is asked for."""
    live.options(limits={"g": 3})
    live.add("old", queue="q1")
    live.options(limits={"g": 3}, live=LIVE)
    live.add("new", queue="q2", said=("g=x", "0", 0))
    assert live.take() == []
    assert live.call("cancel", key="t/q2/new") == 1
    taken = []
    for _ in range(2):
        live.clock.advance(5)
        assert stale(live)[1] == ["g=x"]
        live.call("renew_limits", ["g=x", "1"])
        taken += [key for key, _ in live.take()]
    assert taken == ["t/q1/old"]


@pytest.mark.broken
@pytest.mark.parametrize(
    "break_it",
    [
        lambda c, r: c.hset(r + ":groups", "g=x+", 5),
        lambda c, r: c.hset(r + ":groups", "g=y+", 1),
        lambda c, r: c.hset(r + ":groups", "g=y?", 1),
        lambda c, r: c.zrem(r + ":asked", "g=x"),
        lambda c, r: c.zadd(r + ":asked", {"g=y": 1}),
    ],
)
def test_the_audit_sees_limits_out_of_place(live, break_it):
    """A wrong count, a limit without a message, a group nobody asks for again."""
    live.add("a", said=("g=x", "1", 0))
    assert live.audit() == []
    break_it(live.client, live.root)
    assert "limits" in live.audit()
