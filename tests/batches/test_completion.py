"""A batch ends once, and its callback runs until it succeeds once or is given up on."""

from __future__ import annotations

import threading

import pytest

from batchqueue import BatchClosed
from batchqueue.ledger import Ledger
from fairqueue import ExponentialBackoff, FixedDelay, ImmediateRetry
from tests.batches.conftest import Recorder


@pytest.mark.server
def test_the_last_item_calls_back_once(record, b):
    """With final counts, the status and the metadata (batch-6)."""
    b.initialize("b1", tenant_id="t", item_count=3, metadata={"a": 1}).add_many("abc")
    record.drain()

    [result] = record.results
    assert (result.tenant_id, result.batch_id, result.status) == ("t", "b1", "completed")
    assert (result.item_count, result.succeeded, result.failed, result.metadata) == (3, 3, 0, {"a": 1})
    assert result.completion_id


def test_the_last_item_and_the_callbacks_message_are_one_script(b):
    """No process has to live on between the two (F73)."""
    batch = b.initialize("b1", tenant_id="t", item_count=1)
    batch.add(0, "x")
    [delivery] = b.queue.receive()
    delivery.complete()

    assert batch.progress().status == "completing"
    [callback] = b.queue.receive()
    assert callback.key == "t/~callbacks/b1"
    callback.release()


def test_a_callback_that_raises_is_tried_again_with_backoff(make_batches, clock):
    """Items stay as they are, the completion id too (C29 a, batch-16)."""
    b = make_batches(callback_retry=FixedDelay(5, 10))
    record = Recorder(b)

    def fail_twice(result):
        if result.attempt < 3:
            raise OSError("mail server down")

    record.on_end = fail_twice
    batch = b.initialize("b1", tenant_id="t", item_count=5)
    batch.add_many(range(5))
    record.drain()
    assert (len(record.results), batch.progress().status) == (1, "completing")
    clock.advance(9)
    record.drain()
    assert len(record.results) == 1
    clock.advance(2)
    record.drain()
    clock.advance(11)
    record.drain()

    assert len(record.results) == 3
    assert len({result.completion_id for result in record.results}) == 1
    assert batch.progress().status == "completed"
    assert len(record.items) == 5
    assert batch.progress().succeeded == 5


def test_a_callback_that_never_works_is_reported_and_can_be_run_again(make_batches, clock):
    """callback_failed: data stays, by hand it runs again (C29 b, F75)."""
    b = make_batches(callback_retry=ImmediateRetry(3), retention=100)
    record = Recorder(b, lambda item: item.index)
    record.on_end = lambda result: 1 / 0
    batch = b.initialize("b1", tenant_id="t", item_count=5)
    batch.add_many(range(5))
    record.drain()

    assert len(record.results) == 3
    assert batch.progress().status == "callback_failed"
    assert dict(batch.results()) == {i: i for i in range(5)}
    assert batch.progress().succeeded == 5
    record.on_end = lambda result: None
    clock.advance(50)
    assert batch.retry_callback() is True
    record.drain()
    assert batch.progress().status == "completed"
    assert len({result.completion_id for result in record.results}) == 1
    assert batch.retry_callback() is False
    clock.advance(60)
    b.sweep.run_once()
    assert b.get("t", "b1") is not None
    clock.advance(41)
    b.sweep.run_once()
    assert b.get("t", "b1") is None


def test_a_callback_whose_worker_dies_is_called_by_another(make_batches, clock):
    """Also when items have one attempt only; the same id and counts (C29 c)."""
    b = make_batches(visibility_timeout=10)
    record = Recorder(b)
    batch = b.initialize("b1", tenant_id="t", item_count=1)
    batch.add(0, "x")
    assert b.run_once() == 1
    [callback] = b.queue.receive()
    clock.advance(11)
    b.queue.reclaimer.run_once()
    record.drain()

    assert callback.key.startswith("t/~callbacks/")
    assert [(r.succeeded, r.attempt) for r in record.results] == [(1, 2)]
    assert batch.progress().status == "completed"


def test_two_workers_never_call_back_at_once(make_batches):
    """The callback's message is leased like every other (F74)."""
    b = make_batches()
    record = Recorder(b)
    running = []
    most = []

    def on_end(result):
        running.append(1)
        most.append(len(running))
        assert b.run_once() == 0
        running.pop()

    record.on_end = on_end
    b.initialize("b1", tenant_id="t", item_count=1).add(0, "x")
    record.drain()
    assert most == [1]


def test_without_a_callback_a_batch_simply_completes(b):
    """Nobody is called; the state says it."""
    b.on_process_item(lambda item: None)
    batch = b.initialize("b1", tenant_id="t", item_count=1)
    batch.add(0, "x")
    while b.run_once():
        pass
    assert batch.progress().status == "completed"


def test_the_callback_goes_before_its_tenants_items(make_batches):
    """It is not stuck behind the tenant's other batches, and is not held by the tenant's limit."""
    b = make_batches(default_concurrency=1, order="oldest", consumer_count=1)
    record = Recorder(b)
    b.initialize("old", tenant_id="t", item_count=20).add_many(range(20))
    b.queue.clock.advance(1)
    for _ in range(19):
        b.run_once()
    b.initialize("new", tenant_id="t", item_count=1).add(0, "x")
    b.run_once()
    blocker = b.queue.receive()
    [callback] = blocker
    assert callback.key == "t/~callbacks/old"
    callback.release()
    record.drain()
    assert sorted(result.batch_id for result in record.results) == ["new", "old"]


def test_everything_goes_after_the_retention(make_batches, clock, redis_client, namespace):
    """No key names a tenant, a batch or an item any more (C18, F76, F84, F85, batch-17)."""
    b = make_batches(retention=10, retry=ImmediateRetry(2))
    record = Recorder(b, lambda item: 1 / 0 if item.index == 1 else item.index)
    for i in range(20):
        batch = b.initialize(
            f"b{i}", tenant_id=f"t{i % 3}", item_count=3, processing_concurrency=2, idempotency_key=f"k{i}"
        )
        batch.add_many("abc")
    record.drain()
    assert len(record.results) == 20
    assert all(redis_client.pttl(key) > 0 for key in redis_client.scan_iter(f"{{{namespace}:0}}:batch:*"))
    assert len(list(b.list())) == 20
    clock.advance(11)
    b.sweep.run_once()

    left = {key.decode().partition("}")[2] for key in redis_client.scan_iter(f"{{{namespace}:*")}
    assert left <= {"", ":idle:default"}
    assert len(list(b.list())) == 0


def test_failures_run_again_and_count_again(make_batches):
    """The rule: what is taken back is not failed any more; the batch ends again under a new completion id."""
    b = make_batches(retention=100)
    record = Recorder(b, lambda item: 1 / 0 if item.index % 2 else item.index)
    batch = b.initialize("b1", tenant_id="t", item_count=10)
    batch.add_many(range(10))
    record.drain()
    assert (batch.progress().failed, batch.progress().status) == (5, "completed_with_failures")
    assert batch.redrive_failures() == 5
    progress = batch.progress()
    assert (progress.status, progress.failed, progress.processed, progress.remaining) == ("sealed", 0, 5, 5)
    assert list(batch.failures()) == []
    record.behave = lambda item: item.index
    record.drain()

    first, second = record.results
    assert second.completion_id == f"{first.completion_id}-1"
    assert (second.status, second.succeeded, second.failed) == ("completed", 10, 0)
    assert dict(batch.results()) == {i: i for i in range(10)}
    assert batch.redrive_failures() == 0
    assert batch.progress().status == "completed"
    assert [item.attempt for item in record.items] == [1] * 15


def test_what_lives_again_does_not_go(make_batches, clock, redis_client, namespace):
    """Failures taken back: the retention that had begun is over, for the data and the idempotency key alike."""
    b = make_batches(retention=100)
    record = Recorder(b, lambda item: 1 / 0)
    batch = b.initialize("b1", tenant_id="t", item_count=2, idempotency_key="k")
    batch.add_many("ab")
    record.drain()

    def going():
        return [key for key in redis_client.scan_iter(f"{{{namespace}:0}}*") if redis_client.pttl(key) > 0]

    assert len(going()) >= 3
    batch.redrive_failures()
    assert going() == []
    clock.advance(101)
    b.sweep.run_once()
    assert b.get("t", "b1") is not None
    record.behave = lambda item: None
    record.drain()
    assert batch.progress().status == "completed"
    assert len(going()) >= 3


def test_failures_can_run_again_before_the_batch_ends(record, b):
    """While it is being filled or processed."""
    record.behave = lambda item: 1 / 0 if item.payload == "bad" else None
    batch = b.initialize("b1", tenant_id="t", item_count=3, fill_timeout=60)
    batch.add_many(["bad", "good"])
    record.drain()
    record.behave = lambda item: None
    assert batch.redrive_failures() == 1
    b.queue.clock.advance(2)
    b.sweep.run_once()
    record.drain()
    assert (batch.progress().succeeded, batch.progress().failed) == (2, 0)
    b.queue.clock.advance(60)
    b.sweep.run_once()
    record.drain()
    assert [result.status for result in record.results] == ["incomplete"]


def test_two_that_redrive_at_once_run_each_failure_once(make_batches):
    """Their counts sum up (issue: repair)."""
    b = make_batches()
    record = Recorder(b, lambda item: 1 / 0)
    batch = b.initialize("b1", tenant_id="t", item_count=1200)
    batch.add_many(range(1200))
    record.drain()
    record.items.clear()
    counts = []
    threads = [threading.Thread(target=lambda: counts.append(batch.redrive_failures())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    record.behave = lambda item: None
    record.drain()

    assert sum(counts) == 1200
    assert sorted(item.index for item in record.items) == list(range(1200))
    assert batch.progress().succeeded == 1200


def test_a_redrive_left_half_way_is_finished_by_the_sweep(make_batches, clock):
    """The caller died after the first script: nothing is lost, and the batch does not end without them."""
    b = make_batches()
    record = Recorder(b, lambda item: 1 / 0)
    batch = b.initialize("b1", tenant_id="t", item_count=700)
    batch.add_many(range(700))
    record.drain()
    assert b._ledger.redrive(batch.name) == 700
    record.behave = lambda item: None
    record.drain()
    assert batch.progress().status == "sealed"
    clock.advance(1.1)
    b.sweep.run_once()
    record.drain()

    assert batch.progress().succeeded == 700
    assert len(record.results) == 2


def test_failures_do_not_run_again_under_a_callback(record, b):
    """It is about to be told of them."""
    record.behave = lambda item: 1 / 0
    batch = b.initialize("b1", tenant_id="t", item_count=1)
    batch.add(0, "x")
    b.run_once()
    with pytest.raises(BatchClosed, match="callback"):
        batch.redrive_failures()
    record.drain()
    assert batch.redrive_failures() == 1
    record.behave = lambda item: None
    record.drain()


def test_figures_are_bounded_in_what_they_read(record, b, redis_client):
    """Progress is one command whatever the size (F84)."""
    batch = b.initialize("b1", tenant_id="t", item_count=3000)
    batch.add_many(range(3000))
    before = redis_client.info("commandstats")["cmdstat_hmget"]["calls"]
    calls = redis_client.info("stats")["total_commands_processed"]
    batch.progress()
    after = redis_client.info("commandstats")["cmdstat_hmget"]["calls"]

    assert after - before == 1
    assert redis_client.info("stats")["total_commands_processed"] - calls <= 4
    batch.cancel()


def test_batches_are_listed_by_page(b):
    """Each once, of one tenant or all, by state."""
    for tenant in ("a", "a.b", "b"):
        for i in range(4):
            b.initialize(f"x{i}", tenant_id=tenant, item_count=i and None)
    seen, cursor = [], None
    while True:
        page = b.list(limit=5, cursor=cursor)
        seen += [(info.tenant_id, info.batch_id) for info in page]
        cursor = page.cursor
        if cursor is None:
            break

    assert sorted(seen) == [(t, f"x{i}") for t in ("a", "a.b", "b") for i in range(4)]
    assert [info.batch_id for info in b.list("a")] == ["x0", "x1", "x2", "x3"]
    assert [info.batch_id for info in b.list("a", status="completing")] == ["x0"]
    assert b.get("a", "none") is None


def test_exponential_backoff_is_the_callbacks_default(b):
    """Twelve tries over hours, not one."""
    assert b.options.callback_retry == ExponentialBackoff()


def test_a_redrive_left_half_way_is_fed_in_after_a_cancel_too(make_batches, clock):
    """Else what was taken back would never end, and neither would the batch."""
    b = make_batches()
    record = Recorder(b, lambda item: 1 / 0)
    batch = b.initialize("b1", tenant_id="t", item_count=3)
    batch.add_many("abc")
    record.drain()
    assert b._ledger.redrive(batch.name) == 3
    assert batch.cancel() is True
    for _ in range(3):
        clock.advance(1.1)
        b.sweep.run_once()
    record.behave = lambda item: None
    record.drain()

    assert (batch.progress().cancelled, batch.progress().failed) == (3, 0)
    assert [result.status for result in record.results] == ["completed_with_failures", "cancelled"]


def test_a_batch_that_is_gone_at_once_is_made_once(make_batches, monkeypatch):
    """Its callback was done, and its retention of nothing over, before initialize returned."""
    b = make_batches(retention=0)
    record = Recorder(b)
    answer = Ledger.initialize

    def and_then_it_ends(*args, **options):
        answered = answer(*args, **options)
        record.drain()
        return answered

    monkeypatch.setattr(Ledger, "initialize", and_then_it_ends)
    batch = b.initialize("b1", tenant_id="t", item_count=0)

    assert batch.batch_id == "b1"
    assert len(record.results) == 1
    assert b.get("t", "b1") is None
