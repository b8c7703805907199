"""Items stream in: each index once, bad ones alone, resumable."""

from __future__ import annotations

import threading
import tracemalloc

import pytest

from batchqueue import BatchClosed, BatchConflict, IndexOutOfRange, UnknownBatch
from batchqueue.stream import fresh_call
from fairqueue import InvalidArgument, OutcomeUnknown, PayloadError
from fairqueue.testing import FlakyRedis


def test_remaining_counts_what_is_to_come(b):
    """Ten of ten are to come when none is done (batch-2, batch-3)."""
    for tenant, name, n in (("a", "b1", 5), ("b", "b2", 3), ("a", "b3", 7)):
        b.initialize(name, tenant_id=tenant, item_count=n).add_many(range(n))

    assert [b.get(t, i).progress().remaining for t, i in (("a", "b1"), ("b", "b2"), ("a", "b3"))] == [5, 3, 7]


@pytest.mark.server
def test_an_index_goes_in_once(record, b):
    """The second answer is False, the first payload stays, another index is another item (batch-5)."""
    batch = b.initialize("b1", tenant_id="t", item_count=2)

    assert batch.add(0, "first") is True
    assert batch.add(0, "second") is False
    assert batch.progress().enqueued == 1
    assert batch.add(1, "other") is True
    record.drain()
    assert [(item.index, item.payload) for item in record.items] == [(0, "first"), (1, "other")]


def test_twice_in_one_stream_is_once(b):
    """A chunk may name an index twice."""
    batch = b.initialize("b1", tenant_id="t")
    call_id = fresh_call()
    stream = batch._stream
    answers = stream.put([(0, stream.body(0, "a", call_id)), (0, stream.body(0, "b", call_id))], call_id)

    assert answers == [True, False]
    assert batch.progress().enqueued == 1


def test_four_threads_add_every_index_twice(record, b):
    """Each goes in once, whoever is first (C27)."""
    batch = b.initialize("b1", tenant_id="t", item_count=10)
    answers = []

    def produce(who):
        for index in range(10):
            answers.append((index, batch.add(index, f"{who}-1")))
            answers.append((index, batch.add(index, f"{who}-2")))

    threads = [threading.Thread(target=produce, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    record.drain()

    assert sorted(index for index, new in answers if new) == list(range(10))
    assert all(item.payload.endswith("-1") for item in record.items)
    assert len(record.items) == 10
    assert len(record.results) == 1


@pytest.mark.parametrize("index", [-1, 1.0, True, "1", None, 10_000_000])
def test_indexes_that_are_none_are_refused(b, index):
    """Before anything is sent."""
    batch = b.initialize("b1", tenant_id="t")
    with pytest.raises(InvalidArgument, match="index"):
        batch.add(index, "x")

    assert batch.progress().enqueued == 0


def test_an_index_beyond_the_count_is_refused(b):
    """It would end the batch too early."""
    batch = b.initialize("b1", tenant_id="t", item_count=2)
    with pytest.raises(IndexOutOfRange, match="index 2"):
        batch.add(2, "x")
    result = batch.add_many("abcd")

    assert (result.enqueued, result.deduplicated) == (2, 0)
    assert [(refusal.index, type(refusal.error)) for refusal in result.refused] == [
        (2, IndexOutOfRange),
        (3, IndexOutOfRange),
    ]


def test_bad_items_never_spoil_their_neighbours(record, b):
    """Each is told by index with its reason; it can be added right later."""
    batch = b.initialize("b1", tenant_id="t", item_count=5)
    told = []
    payloads = [0, float("nan"), 2, {"x": object()}, "x" * 300_000]
    result = batch.add_many(iter(payloads), on_refused=lambda index, error: told.append((index, error)))

    assert (result.enqueued, result.deduplicated, result.refused_count) == (2, 0, 3)
    assert [index for index, _ in told] == [refusal.index for refusal in result.refused] == [1, 3, 4]
    assert all(isinstance(error, PayloadError) for _, error in told)
    assert list(batch.missing()) == [1, 3, 4]
    for index in (1, 3, 4):
        batch.add(index, "mended")
    record.drain()
    assert record.results[0].succeeded == 5


def test_a_script_that_is_run_again_goes_on_where_it_was(b):
    """The same script from its start: what is in is skipped, the rest goes in; the first payload wins (C27)."""
    payloads = [{"n": n} for n in range(1200)]
    first = b.initialize("b1", tenant_id="t", item_count=1200)
    first.add_many(payloads[:600])
    again = b.initialize("b1", tenant_id="t", item_count=1200)
    result = again.add_many(iter(payloads))

    assert (result.enqueued, result.deduplicated, result.refused) == (600, 600, [])
    assert again.progress().enqueued == 1200


def test_several_streams_of_one_script_follow_each_other(b):
    """On one handle each call goes on where the last one ended, also when the script is run again."""
    for _ in range(2):
        batch = b.initialize("b1", tenant_id="t", item_count=6)
        results = [batch.add_many(part) for part in (["a", "b"], ["c"], ["d", "e", "f"])]

    assert [(r.enqueued, r.deduplicated) for r in results] == [(0, 2), (0, 1), (0, 3)]
    assert [info.payload for info in b.queue.queues.peek("t", "b1")] == list("abcdef")


def test_a_handle_that_get_gave_goes_on_after_the_last_contiguous_index(b):
    """For those who hold only the rest of a stream."""
    b.initialize("b1", tenant_id="t", item_count=6).add_many("abc")
    batch = b.get("t", "b1")

    assert batch.next_index() == 3
    assert batch.add_many("def").enqueued == 3
    assert [info.payload for info in b.queue.queues.peek("t", "b1")] == list("abcdef")


def test_gaps_are_found_and_filled(b):
    """The first missing index is where to go on; a start says so by hand."""
    batch = b.initialize("b1", tenant_id="t", item_count=2000)
    batch.add_many(range(500))
    batch.add_many(range(600, 2000), start=600)

    assert batch.next_index() == 500
    page = batch.missing(limit=60)
    assert page.items == list(range(500, 560))
    assert batch.missing(limit=60, cursor=page.cursor).items == list(range(560, 600))
    assert batch.add_many(range(500, 600), start=500).enqueued == 100
    assert list(batch.missing()) == []


def test_items_are_processed_by_index_whatever_order_they_came_in(record, b, clock):
    """Order time is the batch's creation, sequence is the index (F45)."""
    batch = b.initialize("b1", tenant_id="t")
    for index in (5, 3, 9, 0, 4):
        batch.add(index, index)
        clock.advance(1)
    batch.seal()
    record.drain()

    assert [item.index for item in record.items] == [0, 3, 4, 5, 9]


def test_all_items_of_a_large_batch_are_eligible_at_once(b):
    """None lies in the future because of its index (F45)."""
    batch = b.initialize("b1", tenant_id="t", item_count=10_000_000)
    batch.add_many(range(3), start=9_999_990)

    assert [delivery.id for delivery in b.queue.receive(max_messages=5)] == ["9999990", "9999991", "9999992"]


def test_a_known_count_seals_itself(b):
    """With the last item in, the batch takes no more."""
    batch = b.initialize("b1", tenant_id="t", item_count=2)
    batch.add(0, "x")
    assert batch.progress().status == "filling"
    batch.add(1, "x")
    assert batch.progress().status == "sealed"
    batch.seal()
    batch.seal(2)
    with pytest.raises(BatchConflict):
        batch.seal(3)


def test_seal_fixes_the_count(record, b):
    """As many as are in; later ones are refused, those that are in are known."""
    batch = b.initialize("b1", tenant_id="t")
    batch.add_many("abc")
    batch.seal()

    assert batch.progress().item_count == 3
    assert batch.add(1, "again") is False
    with pytest.raises(BatchClosed, match="sealed"):
        batch.add(3, "late")
    record.drain()
    assert record.results[0].item_count == 3


def test_seal_with_a_count_waits_for_the_rest(record, b):
    """Declared late: the batch ends when that many are done."""
    batch = b.initialize("b1", tenant_id="t")
    batch.add_many("ab")
    batch.seal(3)
    record.drain()
    assert record.results == []
    with pytest.raises(IndexOutOfRange):
        batch.add(3, "beyond")
    batch.add(2, "c")
    record.drain()
    assert record.results[0].item_count == 3


def test_seal_refuses_what_contradicts(b):
    """Fewer than declared, another count, an index that is already beyond."""
    short = b.initialize("b1", tenant_id="t", item_count=3)
    short.add(1, "x")
    with pytest.raises(BatchConflict, match="first missing is 0"):
        short.seal()
    gap = b.initialize("b2", tenant_id="t")
    gap.add(9, "x")
    with pytest.raises(BatchConflict):
        gap.seal(5)
    with pytest.raises(InvalidArgument):
        gap.seal(-1)
    assert gap.progress().status == "filling"


def test_a_block_seals_unless_it_raised(b):
    """A producer that failed leaves the batch open for its next run."""
    with b.initialize("b1", tenant_id="t") as batch:
        batch.add(0, "x")
    assert batch.progress().status == "sealed"
    with pytest.raises(ZeroDivisionError), b.initialize("b2", tenant_id="t") as batch:
        batch.add(0, 1 / 0)
    assert batch.progress().status == "filling"


def test_cancel_takes_out_what_waits_and_lets_what_runs_end(record, b):
    """No more starts; the end calls back once, with the status."""
    batch = b.initialize("b1", tenant_id="t", item_count=600)
    batch.add_many(range(500))
    running = b.queue.receive(max_messages=2)
    assert batch.cancel() is True
    assert batch.cancel() is True
    assert batch.progress().status == "cancelled"
    assert (batch.progress().cancelled, b.queue.queues.length("t", "b1")) == (498, 0)
    with pytest.raises(BatchClosed, match="cancelled"):
        batch.add(599, "late")
    with pytest.raises(BatchClosed):
        batch.seal()
    record.drain()
    assert record.results == []
    for delivery in running:
        delivery.complete()
    record.drain()
    [result] = record.results
    assert (result.status, result.succeeded, result.cancelled) == ("cancelled", 2, 498)
    assert batch.progress().status == "cancelled"
    with pytest.raises(BatchClosed):
        batch.redrive_failures()


def test_an_item_that_fails_after_cancel_does_not_come_back_to_life(record, b, make_batches):
    """Its retry is taken out by the sweep, and the batch ends."""
    batch = b.initialize("b1", tenant_id="t", item_count=2)
    batch.add_many("ab")
    [delivery, _] = b.queue.receive(max_messages=2)
    batch.cancel()
    delivery.release()
    _.complete()
    record.drain()
    assert record.items == []
    b.queue.clock.advance(2)
    b.sweep.run_once()
    record.drain()
    assert record.items == []
    assert [result.status for result in record.results] == ["cancelled"]


def test_cancel_after_the_end_is_too_late(record, b):
    """It says so and changes nothing."""
    batch = b.initialize("b1", tenant_id="t", item_count=0)
    record.drain()
    assert batch.cancel() is False
    assert batch.progress().status == "completed"


def test_a_batch_that_is_not_filled_in_time_is_incomplete(record, b, clock):
    """Never complete before; then a final state, the missing indexes, one callback, no more adds (C28)."""
    batch = b.initialize("b1", tenant_id="t", item_count=10, fill_timeout=5)
    for index in (0, 1, 2, 4, 5, 7, 9):
        batch.add(index, "x")
    record.drain()
    clock.advance(4.9)
    b.sweep.run_once()
    assert batch.progress().status == "filling"
    assert [info.batch_id for info in b.list(status="filling")] == ["b1"]
    clock.advance(0.2)
    b.sweep.run_once()
    assert batch.progress().status == "incomplete"
    record.drain()
    b.sweep.run_once()
    record.drain()

    [result] = record.results
    assert (result.status, result.item_count, result.succeeded) == ("incomplete", 10, 7)
    assert list(result.missing()) == [3, 6, 8]
    assert batch.progress().status == "incomplete"
    with pytest.raises(BatchClosed, match="incomplete"):
        batch.add(3, "late")
    assert batch.add(0, "there") is False


def test_a_batch_filled_in_time_completes(record, b, clock):
    """The deadline is for filling, not for processing (C28)."""
    batch = b.initialize("b1", tenant_id="t", item_count=10, fill_timeout=5)
    batch.add_many(range(7))
    clock.advance(4)
    batch.add_many(range(3))
    clock.advance(60)
    b.sweep.run_once()
    record.drain()

    assert [result.status for result in record.results] == ["completed"]


def test_items_that_run_at_the_deadline_end_first(record, b, clock):
    """The callback comes after the last of them."""
    batch = b.initialize("b1", tenant_id="t", item_count=3, fill_timeout=5)
    batch.add_many("ab")
    [one, two] = b.queue.receive(max_messages=2)
    clock.advance(6)
    b.sweep.run_once()
    assert batch.progress().status == "incomplete"
    one.complete()
    record.drain()
    assert record.results == []
    two.complete()
    record.drain()
    assert [result.succeeded for result in record.results] == [2]


def test_late_adds_are_answered_truthfully_in_every_state(record, make_batches, clock):
    """In already, closed, and after the retention: unknown."""
    b = make_batches(retention=10)
    record.b = b
    b.on_process_item(lambda item: None)
    batch = b.initialize("b1", tenant_id="t", item_count=1)
    assert batch.add(0, "x") is True
    for status in ("sealed", "completing", "completed"):
        assert batch.progress().status == status
        assert batch.add(0, "x") is False
        b.run_once()
    assert batch.progress().status == "completed"
    assert batch.add(0, "x") is False
    with pytest.raises((BatchClosed, IndexOutOfRange)):
        batch.add(1, "x")
    result = batch.add_many("xy", start=0)
    assert (result.deduplicated, result.refused_count) == (1, 1)
    clock.advance(11)
    b.sweep.run_once()
    with pytest.raises(UnknownBatch, match="retention"):
        batch.add(0, "x")


def test_a_lost_reply_adds_once_and_says_it_was_this_call(server_url, make_batches, redis_client, namespace):
    """The resend finds its own items: enqueued, not deduplicated."""
    from batchqueue import BatchQueue, BatchQueueOptions

    client = FlakyRedis(redis_client)
    b = BatchQueue(client, BatchQueueOptions(namespace=namespace))
    batch = b.initialize("b1", tenant_id="t", item_count=5)
    client.lose_replies(1)
    result = batch.add_many("abc")
    assert (result.enqueued, result.deduplicated) == (3, 0)
    client.lose_replies(1)
    assert batch.add(3, "d") is True
    assert batch.progress().enqueued == 4
    client.close()
    assert make_batches().get("t", "b1").cancel()


def test_nothing_is_marked_that_is_not_enqueued(b, redis_client, namespace):
    """Mark and message are one script: every bit has its message (F70)."""
    batch = b.initialize("b1", tenant_id="t", item_count=1000)
    with pytest.raises(RuntimeError):
        batch.add_many(_broken(750))

    assert batch.progress().enqueued == b.queue.queues.length("t", "b1") == batch.next_index() == 500


def _broken(n):
    yield from range(n)
    raise RuntimeError("the source broke")


def test_a_stream_is_never_held_whole(b):
    """Memory of the producer stays flat: chunks, not lists."""
    batch = b.initialize("b1", tenant_id="t")
    batch.add_many({"n": n, "pad": "x" * 100} for n in range(1000))
    tracemalloc.start()
    batch.add_many({"n": n, "pad": "x" * 100} for n in range(20_000))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 3_000_000
    assert batch.progress().enqueued == 21_000
    batch.cancel()


def test_lost_servers_are_told_and_adding_again_is_safe(make_batches, redis_client, namespace):
    """OutcomeUnknown or Unavailable, never a bare error."""
    from batchqueue import BatchQueue, BatchQueueOptions
    from fairqueue import Unavailable

    client = FlakyRedis(redis_client)
    b = BatchQueue(client, BatchQueueOptions(namespace=namespace))
    b.queue.scripts.connection._patience = 0.05
    batch = b.initialize("b1", tenant_id="t", item_count=2)
    client.go_down()
    with pytest.raises((Unavailable, OutcomeUnknown)):
        batch.add(0, "x")
    client.heal()
    assert batch.add(0, "x") is True
    client.close()
    make_batches().get("t", "b1").cancel()
