"""Bounds of dead letters, and who is told of what is not kept."""

from __future__ import annotations

import pytest


def bury(shard, *names, tenant="t"):
    for name in names:
        shard.add(name, tenant=tenant, groups=())
        [lease] = shard.take()
        shard.settle("bury", lease)


def letters(shard, tenant="t"):
    return [key.decode() for key in shard.client.zrange(f"{shard.root}:dead:{tenant}", 0, -1)]


def test_beyond_the_bound_the_oldest_goes(shard):
    """Each tenant for itself; the id is free again."""
    shard.options(dead_limit=2)
    for name in "abc":
        bury(shard, name)
        shard.clock.advance(1)
    bury(shard, "x", tenant="u")
    assert letters(shard) == ["t/q/b", "t/q/c"]
    assert letters(shard, "u") == ["u/q/x"]
    assert shard.find("a") is None
    assert shard.add("a", groups=()) == [1]
    assert shard.client.hget(shard.root, "evicted") == b"1"


def test_many_at_once_and_a_lowered_bound(shard):
    """Several in one call are counted together; what was too many before goes ten a letter."""
    shard.options(dead_limit=30)
    shard.add(*[f"m{n:02}" for n in range(40)], groups=())
    leases = shard.take(40)
    shard.call("settle", [part for lease in leases for part in ("bury", *lease, 0, "why", "Kind", "text")])
    assert len(letters(shard)) == 30
    shard.options(dead_limit=5)
    bury(shard, "x")
    assert len(letters(shard)) == 21
    for name in "yz":
        bury(shard, name)
    assert len(letters(shard)) == 5


def test_age_ends_letters_of_all_tenants(shard):
    """Only those that old, a bounded number a call; who has none left is not listed."""
    for name, tenant in (("a", "t"), ("b", "u"), ("c", "t"), ("d", "t")):
        bury(shard, name, tenant=tenant)
        shard.clock.advance(1)
    assert shard.call("age_dead", age=5000, limit=10) == [0, 0]
    assert shard.call("age_dead", age=2000, limit=2) == [2, 1]
    assert shard.call("age_dead", age=2000, limit=2) == [1, 0]
    assert letters(shard) == ["t/q/d"]
    assert shard.client.zrange(shard.root + ":letters", 0, -1) == [b"t"]
    shard.clock.advance(2)
    assert shard.call("age_dead", age=2000, limit=2) == [1, 0]
    assert shard.client.exists(shard.root + ":letters", shard.root + ":messages") == 0


@pytest.mark.parametrize("way", ["redrive", "purge"])
def test_the_last_letter_takes_its_tenant_off_the_list(shard, way):
    """Redriven or purged."""
    bury(shard, "a", "b")
    if way == "redrive":
        assert shard.call("redrive", ["t/q/a"]) == [1]
        assert shard.client.zcard(shard.root + ":letters") == 1
        shard.call("redrive", ["t/q/b"])
    else:
        shard.call("purge_dead", tenant="t", before="", limit=1)
        assert shard.client.zcard(shard.root + ":letters") == 1
        shard.call("purge_dead", tenant="t", before="", limit=9)
    assert shard.client.zcard(shard.root + ":letters") == 0


@pytest.mark.parametrize("tell", [None, 1, 2])
def test_discards_follow_the_reply(shard, tell):
    """Where hooks listen: key, why, reason, kind, text, and the record for those who ask."""
    options = {} if tell is None else {"tell": tell}
    shard.options(dead_letters=False, **options)
    shard.add("a", "b", "c", groups=())
    a, b, c = shard.take()
    reply = shard.call("settle", ["complete", *a, 0, "", "", "", "bury", *b, 0, "why", "Kind", "text"])
    assert reply[:2] == [1, 1]
    assert reply[2:7] == ([b"t/q/b", b"off", b"why", b"Kind", b"text"] if tell else [])
    assert (len(reply), bool(tell and reply[7])) == (8 if tell else 2, tell == 2)
    shard.clock.advance(2)
    reply = shard.call("reclaim", [*c, "lost"])
    assert reply[1:6] == ([b"t/q/c", b"off", b"lost", b"LeaseExpired", b""] if tell else [])


def test_letters_that_are_pushed_out_are_told_as_well(shard):
    """With the reason and the last error they died of; by age too."""
    shard.options(dead_limit=1, tell=1)
    bury(shard, "a")
    shard.clock.advance(1)
    shard.add("b", groups=())
    settled, _, _, _ = shard.step(0, settle=[("bury", *shard.take()[0])])
    assert settled == [1, b"t/q/a", b"limit", b"why", b"Kind", b"text", b""]
    shard.clock.advance(9)
    assert shard.call("age_dead", age=1000, limit=5)[2:] == [b"t/q/b", b"age", b"why", b"Kind", b"text", b""]


@pytest.mark.broken
@pytest.mark.parametrize(
    "break_it",
    [
        lambda c, r: c.zrem(r + ":letters", "t"),
        lambda c, r: c.zadd(r + ":letters", {"u": 1}),
        lambda c, r: c.zrem(r + ":dead:t", "t/q/a"),
    ],
)
def test_the_audit_counts_letters(shard, break_it):
    """A tenant that is not listed, one without letters, a letter that is gone."""
    bury(shard, "a")
    assert shard.audit() == []
    break_it(shard.client, shard.root)
    assert "letters" in shard.audit()
