"""Due times: delayed messages are nobody's lease, and clocks that make no sense are refused."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from fairqueue import ConcurrencyGroup, ExponentialBackoff, FairQueueError, NewMessage, Worker

pytestmark = pytest.mark.server

TENANT = ConcurrencyGroup(name="tenant", group_id=lambda m: m.tenant_id, default_limit=5)


@pytest.fixture(params=["America/New_York", "Asia/Kolkata"])
def zone(request, monkeypatch):
    """A process that lives there."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


def test_a_long_delay_is_no_lease(make_queue):
    """Far beyond the visibility timeout it waits, holds no slot, and is delivered once, as attempt 1 (C01)."""
    q = make_queue(visibility_timeout=2, concurrency_groups=[TENANT])
    q.enqueue_batch([NewMessage(payload=n, delay=8) for n in range(20)], tenant_id="t")
    for _ in range(7):
        q.clock.advance(1)
        assert q.dispatcher.run_once() + q.reclaimer.run_once() == 0
        assert q.receive(max_messages=50) == []
    assert {m.state for m in q.messages.list("t")} == {"delayed"}
    assert (q.queues.length("t"), q.inflight.count(), q.groups.usage("tenant", "t")) == (20, 0, (0, 5))
    q.clock.advance(1)

    started = []
    while taken := q.receive(max_messages=50):
        started += [(d.payload, d.attempt, d.deliveries) for d in taken]
        for delivery in taken:
            delivery.complete()
    assert sorted(started) == [(n, 1, 1) for n in range(20)]
    assert q.audit() == []


def test_aware_times_mean_the_same_everywhere(make_queue, zone):
    """Due in three seconds is due in three seconds, in UTC or local; what is past is due now (C08 a, b, d)."""
    q = make_queue()
    now = datetime.fromtimestamp(q.clock.now_ms() / 1000, UTC)
    q.enqueue("utc", tenant_id="t", not_before=now + timedelta(seconds=3))
    q.enqueue("local", tenant_id="t", not_before=now.astimezone() + timedelta(seconds=3))
    q.enqueue("past", tenant_id="t", not_before=now - timedelta(hours=1))
    assert now.astimezone().utcoffset() != timedelta(0)

    assert [d.payload for d in q.receive(max_messages=5)] == ["past"]
    q.clock.advance(2.999)
    assert q.receive() == []
    q.clock.advance(ms=1)
    assert [d.payload for d in q.receive(max_messages=5)] == ["utc", "local"]


@pytest.mark.parametrize(
    "when",
    [
        {"not_before": datetime(2030, 1, 1)},  # noqa: DTZ001 - naive on purpose
        {"delay": -5},
        {"delay": float("nan")},
        {"delay": float("inf")},
    ],
)
def test_times_that_make_no_sense_are_refused_in_every_zone(make_queue, zone, when):
    """A ValueError, and nothing is stored (C08 c, e)."""
    q = make_queue()
    with pytest.raises(ValueError, match="delay|not_before") as caught:
        q.enqueue(1, tenant_id="t", **when)
    assert isinstance(caught.value, FairQueueError)
    assert q.queues.length("t") == 0


def test_backoff_never_leaves_its_bounds():
    """2,000 delays with base 1 s, factor 10, cap 5 s and jitter: finite, from 0 to 5 s, no exception (C08 f)."""
    policy = ExponentialBackoff(max_attempts=1000, min_delay=1, max_delay=5, factor=10, jitter=True)
    delays = [policy.next_delay(attempt, ValueError("x")) for _ in range(2) for attempt in range(1, 1000)]
    delays += [policy.next_delay(1, None), policy.next_delay(2, None)]
    assert len(delays) == 2000
    assert all(0 <= delay <= 5 for delay in delays)


def test_a_pile_that_falls_due_at_once_is_delivered_once(make_queue):
    """2,500 messages of one due time and 1,000 leases that run out together: each delivered, none lost (C21)."""
    q = make_queue(visibility_timeout=1, retry=ExponentialBackoff(max_attempts=3, min_delay=0))
    q.enqueue_batch(range(1000), tenant_id="t", queue_id="leased")
    assert len(q.receive(max_messages=1000)) == 1000
    q.enqueue_batch([NewMessage(payload=n, delay=1) for n in range(2500)], tenant_id="t", queue_id="delayed")
    q.enqueue("beside", tenant_id="other")
    q.clock.advance(1)

    assert q.reclaimer.run_once() == 1000
    [first, second] = q.receive(max_messages=2)
    assert "other" in {first.tenant_id, second.tenant_id}, "the other tenant is at most one behind"
    done = [(d.queue_id, d.payload, d.attempt) for d in (first, second)]
    for delivery in (first, second):
        delivery.complete()
    while taken := q.receive(max_messages=500):
        done += [(d.queue_id, d.payload, d.attempt) for d in taken]
        for delivery in taken:
            delivery.complete()
    assert sorted(done) == sorted(
        [("leased", n, 2) for n in range(1000)] + [("delayed", n, 1) for n in range(2500)] + [("default", "beside", 1)]
    )
    assert q.audit() == []


def test_a_flood_delays_the_others_by_a_few_deliveries(make_queue):
    """Behind a thousand of one tenant, ten and one of two others start within the bound of the policy (C05)."""
    q = make_queue(clock=None)
    lock, order, late = threading.Lock(), [], threading.Event()

    def handle(delivery):
        with lock:
            order.append(delivery.tenant_id)
            if len(order) == 100:
                late.set()
        threading.Event().wait(0.002)

    q.enqueue_batch(range(1000), tenant_id="flood")
    worker = Worker(q, handle, threads=4)
    worker.start()
    assert late.wait(20)
    with lock:
        before = len(order)
        q.enqueue_batch(range(10), tenant_id="ten")
        q.enqueue("x", tenant_id="one")
    for _ in range(800):
        if q.stats().get("completed", 0) == 1011:
            break
        threading.Event().wait(0.025)
    worker.stop()

    ahead = 4 + 4  # taken already, one for each thread; and those that may be on their way
    places = {tenant: [i - before for i, one in enumerate(order) if one == tenant] for tenant in ("one", "ten")}
    assert places["one"][0] <= 3 + ahead + 4
    assert places["ten"][9] <= 30 + 3 + ahead + 4
    assert len(order) == 1011
    assert q.audit() == []
