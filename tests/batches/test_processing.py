"""Items are processed: each counts once, with its result or its failure."""

from __future__ import annotations

import itertools
from threading import Event

import pytest

from batchqueue import ItemFailed
from batchqueue.ledger import WORKER_QUEUE
from fairqueue import Bury, ConfigurationError, ExponentialBackoff, FixedDelay, ImmediateRetry, Retry
from tests.batches.conftest import Recorder


@pytest.mark.server
def test_results_come_back_by_index(record, b):
    """Three good items: each once, its result under its index (batch-6, batch-13, batch-15)."""
    record.behave = lambda item: f"run_{item.index}"
    batch = b.initialize("b1", tenant_id="t", item_count=12)
    batch.add_many(range(12))
    record.drain()

    [result] = record.results
    assert (result.batch_id, result.succeeded, result.failed) == ("b1", 12, 0)
    assert dict(result.results()) == {i: f"run_{i}" for i in range(12)}
    assert [r.index for r in batch.results(limit=5)] == [0, 1, 2, 3, 4]
    assert [r.index for r in batch.results(limit=5, cursor=batch.results(limit=5).cursor)] == [5, 6, 7, 8, 9]
    assert [item.index for item in record.items] == list(range(12))


def test_values_come_back_as_they_went(record, b):
    """None is a result too; what is no JSON fails the item, since it cannot be kept."""
    values = [None, 0, "", [], {}, 2**63, "é雪", {"a": [None, True]}]
    record.behave = lambda item: values[item.index] if item.index < len(values) else {1, 2}
    batch = b.initialize("b1", tenant_id="t", item_count=len(values) + 1)
    batch.add_many([*values, "bad"])
    record.drain()

    assert dict(batch.results()) == dict(enumerate(values))
    [failure] = batch.failures()
    assert (failure.index, failure.code, failure.payload) == (8, "RESULT_ERROR", "bad")


def test_failures_are_told_with_code_and_error(record, b):
    """ItemFailed gives its code, anything else UNEXPECTED_ERROR with its text (batch-7, batch-8, batch-14)."""

    def behave(item):
        if item.index == 1:
            raise ItemFailed("no such city", code="CITY_UNKNOWN")
        if item.index == 2:
            raise ValueError("what is this")
        if item.index == 3:
            raise ItemFailed("no code")
        if item.index == 4:
            raise SystemExit(3)
        if item.index == 5:
            raise Bury("never again")

    record.behave = behave
    batch = b.initialize("b1", tenant_id="t", item_count=6)
    batch.add_many({"n": n} for n in range(6))
    record.drain()

    [result] = record.results
    assert (result.status, result.succeeded, result.failed) == ("completed_with_failures", 1, 5)
    failures = list(result.failures())
    assert [(f.index, f.code, f.error, f.attempts, f.payload) for f in failures] == [
        (1, "CITY_UNKNOWN", "no such city", 1, {"n": 1}),
        (2, "UNEXPECTED_ERROR", "ValueError: what is this", 1, {"n": 2}),
        (3, "ITEM_FAILED", "no code", 1, {"n": 3}),
        (4, "UNEXPECTED_ERROR", "SystemExit: 3", 1, {"n": 4}),
        (5, "Bury", "never again", 1, {"n": 5}),
    ]
    assert {f.reason for f in failures} == {"no retry policy", "never again"}
    assert batch.progress().failed == 5


def test_attempts_and_the_final_one_are_given(make_batches, clock):
    """Retries follow the policy; skip_retries ends at once (batch-20, batch-21, batch-22)."""
    b = make_batches(retry=FixedDelay(4, 1))
    seen = []

    def behave(item):
        seen.append((item.index, item.attempt, item.is_final_attempt))
        raise ItemFailed("no", code="E", skip_retries=item.index % 2 == 0)

    record = Recorder(b, behave)
    batch = b.initialize("b1", tenant_id="t", item_count=4)
    batch.add_many(range(4))
    for _ in range(4):
        record.drain()
        clock.advance(1.001)

    assert [row for row in seen if row[0] == 0] == [(0, 1, False)]
    assert [row for row in seen if row[0] == 1] == [(1, 1, False), (1, 2, False), (1, 3, False), (1, 4, True)]
    assert [(f.index, f.attempts) for f in batch.failures()] == [(0, 1), (1, 4), (2, 1), (3, 4)]
    assert len(record.results) == 1


def test_one_attempt_is_final_without_a_policy(record, b):
    """So a callback can do what it does last."""
    b.initialize("b1", tenant_id="t", item_count=1).add(0, "x")
    record.drain()
    assert record.items[0].is_final_attempt is True


def test_a_callback_may_ask_for_another_time(make_batches, clock):
    """`Retry(after=...)` decides as in fairqueue."""
    b = make_batches(retry=ImmediateRetry(5))
    record = Recorder(b)

    def behave(item):
        if item.attempt == 1:
            raise Retry(after=30)

    record.behave = behave
    b.initialize("b1", tenant_id="t", item_count=1).add(0, "x")
    record.drain()
    clock.advance(29)
    record.drain()
    assert len(record.items) == 1
    clock.advance(2)
    record.drain()
    assert (len(record.items), record.results[0].succeeded) == (2, 1)


def test_an_item_knows_its_batch(record, b):
    """Metadata, tenant, index, and whose it is."""
    b.initialize("b1", tenant_id="t", item_count=1, metadata={"file": "x"}).add(0, {"n": 1})
    record.drain()
    [item] = record.items

    assert (item.tenant_id, item.batch_id, item.index, item.payload, item.batch) == (
        "t", "b1", 0, {"n": 1}, {"file": "x"},
    )  # fmt: skip


def test_an_item_that_kills_its_workers_is_recorded_as_failed(make_batches, clock):
    """After the policy's attempts, with the reason that its worker was lost (C30, F81)."""
    b = make_batches(retry=ExponentialBackoff(max_attempts=3), visibility_timeout=10)
    record = Recorder(b)
    batch = b.initialize("b1", tenant_id="t", item_count=2)
    batch.add_many(["killer", "good"])
    deliveries = 0
    while not batch.failures():
        [found] = b.queue.receive(WORKER_QUEUE)
        if found.payload == "good":
            found.complete()
        else:
            deliveries += 1
            clock.advance(11)
            b.queue.reclaimer.run_once()
    record.drain()

    assert deliveries == 3
    [failure] = batch.failures()
    assert (failure.code, failure.attempts, failure.payload) == ("LeaseExpired", 3, "killer")
    assert "worker lost" in failure.reason
    assert [(r.status, r.succeeded, r.failed) for r in record.results] == [("completed_with_failures", 1, 1)]


def test_without_a_policy_lost_workers_end_at_the_delivery_limit(make_batches, clock):
    """A crash is not a failure of the item, up to max_deliveries."""
    b = make_batches(max_deliveries=3, visibility_timeout=10)
    record = Recorder(b)
    batch = b.initialize("b1", tenant_id="t", item_count=1)
    batch.add(0, "killer")
    n = 0
    while not batch.failures():
        assert b.queue.receive()
        n += 1
        clock.advance(11)
        b.queue.reclaimer.run_once()
    record.drain()

    assert n == 3
    assert [f.reason for f in batch.failures()] == ["worker lost: delivery limit of 3 reached"]
    assert len(record.results) == 1


def test_a_late_worker_counts_nothing(record, b, clock):
    """Its item was taken over: the first settlement that holds counts, once (C27)."""
    batch = b.initialize("b1", tenant_id="t", item_count=1)
    batch.add(0, "x")
    [late] = b.queue.receive()
    clock.advance(61)
    b.queue.reclaimer.run_once()
    record.drain()
    assert batch.progress().succeeded == 1
    with pytest.raises(Exception, match="no longer this delivery's"):
        late.complete()
    record.drain()
    assert batch.progress().succeeded == 1
    assert len(record.results) == 1


def test_an_unreadable_payload_is_a_failure_of_its_item(record, b, redis_client):
    """Recorded with its batch, never dropped (F11, F68)."""
    batch = b.initialize("b1", tenant_id="t", item_count=2)
    batch.add_many(["good", "bad"])
    key = b.queue.keys.part(0, "messages")
    raw = redis_client.hget(key, "t/b1/1")
    redis_client.hset(key, "t/b1/1", raw.replace(b'"bad"', b"{bad]"))
    record.drain()

    [failure] = batch.failures()
    assert (failure.index, failure.code, failure.payload) == (1, "PayloadError", None)
    assert record.results[0].failed == 1


def test_figures_add_up_at_every_moment(make_batches, clock):
    """Never falling, never beyond the count, whatever fails (C30)."""
    b = make_batches(retry=ImmediateRetry(3))
    failing = {0, 3, 6, 9, 12}

    def behave(item):
        if item.index in failing or (item.index in {1, 2} and item.attempt == 1):
            raise ValueError

    record = Recorder(b, behave)
    batch = b.initialize("b1", tenant_id="t", item_count=20)
    batch.add_many(range(20))
    seen = [batch.progress()]
    while b.run_once():
        seen.append(batch.progress())

    for before, after in itertools.pairwise(seen):
        assert before.processed <= after.processed
        assert before.succeeded <= after.succeeded
        assert before.failed <= after.failed
        assert after.processed == after.succeeded + after.failed
        assert after.processed + after.remaining == after.item_count == 20
    assert (seen[-1].succeeded, seen[-1].failed) == (15, 5)
    assert len(record.results) == 1


def test_a_second_batch_of_a_tenant_is_not_stuck_behind_the_first(make_batches):
    """Round robin over a tenant's batches; oldest first only where it is asked for."""
    orders = {}
    for order in ("round_robin", "oldest"):
        b = make_batches(order=order, consumer_count=1)
        record = Recorder(b)
        b.initialize("huge" + order, tenant_id=order, item_count=50).add_many(range(50))
        b.queue.clock.advance(1)
        b.initialize("small" + order, tenant_id=order, item_count=3).add_many(range(3))
        record.drain()
        orders[order] = [item.batch_id.startswith("small") for item in record.items]

    assert [i for i, small in enumerate(orders["round_robin"]) if small] == [1, 3, 5]
    assert [i for i, small in enumerate(orders["oldest"]) if small] == [50, 51, 52]


def test_a_small_tenant_is_served_beside_a_large_one(make_batches):
    """30 items, then another tenant's 10: the first of the second comes before position 30 (batch-12)."""
    b = make_batches(consumer_count=1)
    record = Recorder(b)
    b.initialize("b1", tenant_id="big", item_count=30).add_many(range(30))
    b.initialize("b2", tenant_id="small", item_count=10).add_many(range(10))
    record.drain()

    assert [item.tenant_id for item in record.items].index("small") <= 1
    assert sorted(result.batch_id for result in record.results) == ["b1", "b2"]


def test_concurrency_of_tenant_and_batch_hold_together(make_batches):
    """The batch's own limit is a second group; neither is exceeded, both are free at the end (F83)."""
    b = make_batches(default_concurrency=3)
    one = b.initialize("b1", tenant_id="t", item_count=5, processing_concurrency=2)
    one.add_many(range(5))
    b.initialize("b2", tenant_id="t", item_count=5).add_many(range(5))
    taken = b.queue.receive(max_messages=10)

    assert sorted(delivery.queue_id for delivery in taken) in (["b1", "b1", "b2"], ["b1", "b2", "b2"])
    assert b.queue.groups.usage("tenant", "t") == (3, 3)
    assert b.queue.groups.usage("batch", ("t", "b1"))[1] == 2
    for delivery in taken:
        delivery.release()
    Recorder(b).drain()
    assert b.queue.groups.usage("tenant", "t") == (0, 3)
    assert b.queue.groups.usage("batch", ("t", "b1")) == (0, None)


def test_a_batch_may_be_paused_by_its_limit(record, b):
    """0 stops it, more lets it go on."""
    batch = b.initialize("b1", tenant_id="t", item_count=2, processing_concurrency=0)
    batch.add_many("ab")
    record.drain()
    assert record.items == []
    b.queue.groups.set_limit("batch", ("t", "b1"), 1)
    record.drain()
    assert len(record.results) == 1


def test_start_refuses_without_a_callback(b):
    """Work would be taken and nobody there to do it (F67)."""
    with pytest.raises(ConfigurationError, match="on_process_item"):
        b.start()
    with pytest.raises(ConfigurationError, match="on_process_item"):
        b.run_once()


PAYLOADS = [2**53 + 1, 2**63, -(2**63), 0.1, 1e308, [], {}, [[], {}], None, "", "\x00", True, {"a.b": 1, "": 2}]


def test_payloads_arrive_as_they_went_in(make_batches, clock):
    """Direct, retried, reclaimed and redriven (C20)."""
    b = make_batches(retry=ImmediateRetry(3), visibility_timeout=10)
    deep = "x"
    for _ in range(200):
        deep = [deep]
    payloads = [*PAYLOADS, deep]
    record = Recorder(b, lambda item: 1 / 0)
    batch = b.initialize("b1", tenant_id="t", item_count=len(payloads))
    batch.add_many(payloads)
    b.queue.receive(max_messages=5)
    clock.advance(11)
    b.queue.reclaimer.run_once()
    record.drain()
    assert batch.redrive_failures() == len(payloads)
    record.behave = lambda item: None
    record.drain()

    for item in record.items:
        assert item.payload == payloads[item.index]
        assert type(item.payload) is type(payloads[item.index])
    assert batch.progress().succeeded == len(payloads)


def test_payload_types_are_given_back(make_batches):
    """As in fairqueue: the class that payloads come back as."""
    import attrs

    @attrs.frozen
    class City:
        name: str

    b = make_batches(payload_type=City, validate_on_enqueue=True)
    record = Recorder(b)
    batch = b.initialize("b1", tenant_id="t", item_count=2)
    result = batch.add_many([City("Ulm"), {"nome": "x"}])
    assert (result.enqueued, result.refused_count) == (1, 1)
    batch.add(1, City("Bern"))
    record.drain()

    assert [item.payload for item in record.items] == [City("Ulm"), City("Bern")]


def test_nothing_runs_before_the_start_and_starting_again_is_fine(make_batches):
    """Items wait for start(); start, stop and start raise nothing and lose nothing (batch-9, batch-10)."""
    b = make_batches(clock=None)
    record, over = Recorder(b), Event()
    record.on_end = lambda result: over.set()
    b.initialize("b1", tenant_id="t", item_count=3).add_many("abc")
    assert record.items == []
    assert b.get("t", "b1").progress().remaining == 3
    b.start()
    b.stop()
    b.start()
    assert over.wait(30)
    b.stop()
    assert sorted(item.index for item in record.items) == [0, 1, 2]
    assert len(record.results) == 1
