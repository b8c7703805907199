"""A payload comes back as it went in, whatever happens to its message on the way."""

from __future__ import annotations

import pytest

from fairqueue import FixedDelay, NewMessage, PayloadError
from fairqueue.keys import message_key

pytestmark = pytest.mark.server


def nested(depth):
    value = []
    for _ in range(depth - 1):
        value = [value]
    return value


PAYLOADS = [
    2**53 + 1, 2**63, -(2**63), 0.1, 1e308, [], {}, [[], {}], None, "", "\u0000", True, nested(200), {".": 1, "": 2},
    {"list": [], "map": {}, "none": None}, 1, 1.0, "123",
]  # fmt: skip


def same(a, b):
    """Equal, and of the same types all through."""
    return repr(a) == repr(b) and a == b


def direct(q):
    q.enqueue_batch(PAYLOADS, tenant_id="t")


def delayed(q):
    q.enqueue_batch([NewMessage(payload=p, delay=5) for p in PAYLOADS], tenant_id="t")
    assert q.receive() == []
    q.clock.advance(5)


def retried(q):
    direct(q)
    for _ in range(2):
        for delivery in q.receive(max_messages=50):
            delivery.fail("again")
        q.clock.advance(1)


def reclaimed(q):
    direct(q)
    assert len(q.receive(max_messages=50)) == len(PAYLOADS)
    q.clock.advance(31)
    assert q.reclaimer.run_once() == len(PAYLOADS)


def released(q):
    direct(q)
    for delivery in q.receive(max_messages=50):
        delivery.release(1)
    q.clock.advance(1)


def redriven(q):
    direct(q)
    for delivery in q.receive(max_messages=50):
        delivery.fail("dead", dead=True)
    assert all(same(a.payload, b) for a, b in zip(q.dead_letters.list("t"), PAYLOADS, strict=True))
    assert q.dead_letters.redrive_all("t") == len(PAYLOADS)


def dispatched(q):
    direct(q)
    assert q.dispatcher.run_once() == len(PAYLOADS)


@pytest.mark.parametrize("path", [direct, delayed, retried, reclaimed, released, redriven, dispatched])
def test_payloads_come_back_equal_and_of_the_same_type(make_queue, path):
    """On every way a message can take (C20; items of batches: see their own test)."""
    q = make_queue(retry=FixedDelay(5, 1))
    path(q)
    taken = q.receive(max_messages=50)
    assert len(taken) == len(PAYLOADS), "None is a payload, not the absence of a message"
    for delivery, payload in zip(taken, PAYLOADS, strict=True):
        assert same(delivery.payload, payload)
        delivery.complete()
    assert q.audit() == []


@pytest.mark.parametrize("payload", [float("nan"), float("inf"), -float("inf"), [float("nan")], {"x": float("inf")}])
def test_what_is_no_json_is_refused_and_never_null(make_queue, payload):
    """NaN and infinity are refused at enqueue (C20)."""
    q = make_queue()
    with pytest.raises(PayloadError):
        q.enqueue(payload, tenant_id="t")
    assert q.receive() == []


@pytest.mark.parametrize("junk", [b"", b"\xc1", b"no json {"])
def test_what_cannot_be_read_is_dead_and_its_bytes_are_kept(make_queue, redis_client, junk):
    """A stored body that is damaged is no delivery and blocks nobody: a dead letter with its bytes (F11)."""
    q = make_queue()
    q.enqueue("good", tenant_id="t", message_id="bad")
    q.enqueue("next", tenant_id="t")
    records, field = q.keys.part(0, "messages"), message_key("t", "default", "bad")
    whole = redis_client.hget(records, field)
    kept = whole[: whole.index(b'"good"')]
    redis_client.hset(records, field, whole.replace(b'"good"', junk) if junk.startswith(b"no") else kept[:-2] + junk)

    assert [d.payload for d in q.receive(max_messages=5)] == ["next"]
    [letter] = q.dead_letters.list("t")
    assert (letter.message_id, letter.payload) == ("bad", None)
    assert junk in letter.raw
    assert q.audit() == []
