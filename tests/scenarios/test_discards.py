"""What is not kept is told: to hooks, in numbers, and with its payload to those who ask."""

from __future__ import annotations

import pytest

from fairqueue import FixedDelay, Worker
from fairqueue.events import Discarded, OnDiscard
from fairqueue.testing import Collected

pytestmark = pytest.mark.server


def seen(hook):
    return [(e.message_id, e.why, e.reason, e.error, e.raw) for e in hook.of(Discarded)]


def test_each_way_out_is_told_once(make_queue):
    """fail(), a worker's handler, a lease that ran out: with the reason, the error, and the payload on demand."""
    plain, told = Collected(), []
    q = make_queue(dead_letters=False, max_deliveries=1, hooks=[plain, OnDiscard(told.append)])
    for name in ("failed", "handled", "lost"):
        q.enqueue({"secret": name}, tenant_id="t", message_id=name)
    q.receive()[0].fail(ValueError("bad"))

    def handle(delivery):
        raise KeyError("x")

    Worker(q, handle, threads=1).run_once()
    q.receive()
    q.clock.advance(31)
    q.reclaimer.run_once()

    expected = [
        ("failed", "off", "no retry policy", "ValueError: bad"),
        ("handled", "off", "no retry policy", "KeyError: 'x'"),
        ("lost", "off", "worker lost: no retry policy", "LeaseExpired"),
    ]
    assert [row[:2] for row in seen(plain)] == [row[:2] for row in expected]
    assert [row[3] for row in seen(plain)] == [row[3] for row in expected]
    assert all(row[4] is None for row in seen(plain))
    assert [e.raw for e in told] == [b'{"secret":"%s"}' % name.encode() for name in ("failed", "handled", "lost")]
    assert "secret" not in repr(told)
    assert "bad" not in repr(told)
    assert q.stats()["discarded"] == 3
    assert q.audit() == []


def test_a_hook_that_fails_changes_nothing(make_queue):
    """The message is gone all the same."""

    def broken(_):
        raise RuntimeError

    q = make_queue(dead_letters=False, hooks=[OnDiscard(broken)])
    q.enqueue(1, tenant_id="t")
    q.receive()[0].fail("x")
    assert q.stats()["discarded"] == 1


def test_letters_are_bounded_by_number(make_queue):
    """The newest stay; each that goes is counted and told."""
    hook = Collected()
    q = make_queue(dead_letter_limit=3, retry=FixedDelay(1, 0), hooks=[hook])
    for n in range(5):
        q.enqueue(n, tenant_id="t", message_id=str(n))
        q.receive()[0].fail(f"e{n}")
        q.clock.advance(1)
    assert [letter.message_id for letter in q.dead_letters.list("t")] == ["2", "3", "4"]
    assert [row[:4] for row in seen(hook)] == [(str(n), "limit", "exhausted", f"error: e{n}") for n in (0, 1)]
    assert (q.stats()["dead"], q.stats()["evicted"]) == (5, 2)
    assert q.dead_letters.redrive_all("t") == 3
    assert q.audit() == []


def test_letters_are_bounded_by_age(make_queue, redis_client, namespace):
    """The reclaimer ends what is too old, over all tenants and shards; who has letters is listed."""
    hook = Collected()
    q = make_queue(dead_letter_ttl=100, shard_count=3, hooks=[hook])
    for n in range(30):
        q.enqueue(n, tenant_id=f"t{n}")
        q.receive()[0].fail("x")
        q.clock.advance(5)
    names, cursor = [], None
    while True:
        page = q.dead_letters.tenants(limit=7, cursor=cursor)
        names += page.items
        if (cursor := page.cursor) is None:
            break
    assert sorted(names) == sorted(f"t{n}" for n in range(30))
    q.reclaimer.run_once()
    assert sorted(q.dead_letters.tenants()) == sorted(f"t{n}" for n in range(11, 30))
    assert len(hook.of(Discarded)) == 11
    q.clock.advance(1000)
    q.reclaimer.run_once()
    assert list(q.dead_letters.tenants()) == []
    assert [key for key in redis_client.scan_iter(f"{{{namespace}:*") if b"}:" in key] == []
    assert q.audit() == []


def test_redrive_all_keeps_its_rate(make_queue, monkeypatch):
    """Chunk by chunk, with the pauses that the rate asks for; a filter chooses."""
    q = make_queue()
    q.enqueue_batch(range(50), tenant_id="t")
    for delivery in q.receive(max_messages=50):
        delivery.fail("x")
    slept = []
    letters = type(q.dead_letters)(q.dead_letters._resolver, q.dead_letters._store, q.shards, q._now_ms, slept.append)
    assert letters.redrive_all("t", where=lambda letter: letter.payload < 40, rate=10) == 40
    assert sum(slept) == pytest.approx(4, abs=1)
    assert max(slept) <= 1
    assert letters.count("t") == 10
