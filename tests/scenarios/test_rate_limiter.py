"""A rate limiter spends a token for each message in hand; what it refuses is handed back uncharged."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

from fairqueue import ConcurrencyGroup, Worker
from fairqueue.ratelimit import Decision
from tests.batches.conftest import Recorder, make_batches  # noqa: F401 - a fixture


class Limiter:
    """Refuses the calls whose numbers are named."""

    def __init__(self, *refused, reset_in=0.02):
        self.refused, self.reset_in, self.calls = set(refused), reset_in, 0

    def acquire(self, n=1, /):
        assert n == 1
        self.calls += 1
        if self.calls in self.refused:
            return Decision(allowed=False, reset_at=datetime.now(UTC) + timedelta(seconds=self.reset_in))
        return Decision(allowed=True)


def run(q, n, **options):
    """A worker until *n* are handled; the deliveries."""
    handled, done = [], threading.Event()

    def handle(delivery):
        handled.append(delivery)
        if len(handled) >= n:
            done.set()

    worker = Worker(q, handle, **options)
    worker.start()
    assert done.wait(20)
    worker.stop()
    return handled


def test_a_token_for_each_message_and_none_for_a_look(make_queue):
    """Five messages are five calls; an idle worker asks for nothing (batch-18)."""
    limiter = Limiter()
    q = make_queue(clock=None, rate_limiter=limiter)
    idle = Worker(q, lambda delivery: None, threads=2)
    idle.start()
    threading.Event().wait(0.2)
    idle.stop()
    assert limiter.calls == 0
    q.enqueue_batch(range(5), tenant_id="t")
    run(q, 5, threads=2)
    assert limiter.calls == 5


def test_what_is_refused_is_not_charged_and_holds_no_slot(make_queue):
    """Attempt and deliveries stay, the place in the queue too, and the slots are free while it waits."""
    limiter = Limiter(*range(2, 100), reset_in=3600)
    group = ConcurrencyGroup(name="t", group_id=lambda m: m.tenant_id, default_limit=10)
    q = make_queue(rate_limiter=limiter, concurrency_groups=[group])
    q.enqueue_batch(range(5), tenant_id="t")
    handled = []
    worker = Worker(q, lambda delivery: handled.append(delivery.payload), threads=5, dispatch=False)
    assert worker.run_once() == 1
    assert worker.run_once() == 0  # nothing is taken before the limiter's time

    assert limiter.calls == 2
    assert q.groups.usage("t", "t") == (0, 10)
    assert handled == [0]
    assert [(d.payload, d.attempt, d.deliveries) for d in q.receive(max_messages=9)] == [(i, 1, 1) for i in range(1, 5)]
    assert q.audit() == []


def test_refusals_delay_and_lose_nothing(make_queue):
    """Three refusals: every message is handled once, in its first attempt (batch-19)."""
    limiter = Limiter(1, 3, 6)
    q = make_queue(clock=None, rate_limiter=limiter)
    q.enqueue_batch(range(6), tenant_id="t")
    handled = run(q, 6, threads=3)

    assert sorted(delivery.payload for delivery in handled) == list(range(6))
    assert {(delivery.attempt, delivery.deliveries) for delivery in handled} == {(1, 1)}
    assert limiter.calls == 9


def test_a_limiter_that_raises_lets_nothing_through_and_ends_no_thread(make_queue):
    """The worker pauses and asks again."""

    class Broken(Limiter):
        def acquire(self, n=1, /):
            if self.calls == 0:
                self.calls += 1
                raise OSError("the limiter's own server is down")
            return super().acquire(n)

    limiter = Broken()
    q = make_queue(clock=None, rate_limiter=limiter)
    q.enqueue("x", tenant_id="t")
    [delivery] = run(q, 1, threads=1)
    assert (delivery.deliveries, limiter.calls) == (1, 2)


def test_batches_take_it_too(make_batches):  # noqa: F811 - the fixture
    """Items wait for tokens, the batch completes (batch-19)."""
    limiter = Limiter(1, reset_in=0)
    b = make_batches(rate_limiter=limiter)
    record = Recorder(b)
    b.initialize("b1", tenant_id="t", item_count=3).add_many("abc")
    worker = Worker(b.queue, b._handler, threads=1, dispatch=False)
    for _ in range(100):
        worker.run_once()
        if record.results:
            break
        threading.Event().wait(0.005)

    assert [result.succeeded for result in record.results] == [3]
    assert limiter.calls == 4  # three items, one refusal; the callback costs none
