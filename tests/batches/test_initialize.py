"""A batch is made once, whoever asks how often."""

from __future__ import annotations

import threading

import pytest

from batchqueue import BatchConflict, BatchQueueOptions, IndexOutOfRange, UnknownBatch
from batchqueue.errors import BatchClosed
from fairqueue import ConfigurationError, FairQueue, FairQueueOptions, InvalidArgument, InvalidId, SchemaMismatch

METADATA = {
    "source": "s3://x/y.csv",
    "n": 2**53 + 1,
    "empty": [],
    "none": None,
    "deep": {"a": [{}, []]},
    "": "",
    "é": "雪",
}


@pytest.mark.server
def test_metadata_and_parameters_come_back_whole(b):
    """Metadata, tenant, id and count are what was given (batch-1, batch-4)."""
    made = b.initialize("b1", tenant_id="env", item_count=10, metadata=METADATA)
    found = b.get("env", "b1")

    assert (found.tenant_id, found.batch_id, found.metadata) == ("env", "b1", METADATA)
    assert found.progress().item_count == 10
    assert found.created_at == made.created_at


def test_again_with_the_same_parameters_is_the_same_batch(b):
    """A no-op: items that are in stay in, nothing starts over."""
    first = b.initialize("b1", tenant_id="t", item_count=3, metadata={"a": 1, "b": 2})
    first.add(0, "x")
    again = b.initialize("b1", tenant_id="t", item_count=3, metadata={"b": 2, "a": 1})

    assert again.progress().enqueued == 1
    assert again.name.gen == first.name.gen


@pytest.mark.parametrize(
    "other", [{"item_count": 4}, {"metadata": {"a": 2}}, {"processing_concurrency": 2}, {"fill_timeout": 9}]
)
def test_again_with_other_parameters_is_a_conflict(b, other):
    """Named, and nothing is changed."""
    given = {"item_count": 3, "metadata": {"a": 1}}
    made = b.initialize("b1", tenant_id="t", **given)
    with pytest.raises(BatchConflict, match="'b1'.*'t'"):
        b.initialize("b1", tenant_id="t", **{**given, **other})

    assert made.progress().item_count == 3


def test_an_idempotency_key_answers_with_the_batch_it_made(b):
    """Whatever new id the second call brings; another tenant's key is another key."""
    first = b.initialize("b1", tenant_id="t", item_count=1, idempotency_key="k")
    again = b.initialize("b2", tenant_id="t", item_count=1, idempotency_key="k")
    other = b.initialize("b2", tenant_id="u", item_count=1, idempotency_key="k")

    assert again.batch_id == "b1"
    assert again.name.gen == first.name.gen
    assert other.batch_id == "b2"
    assert b.get("t", "b2") is None
    with pytest.raises(BatchConflict):
        b.initialize("b3", tenant_id="t", item_count=2, idempotency_key="k")


def test_many_callers_make_one_batch(b):
    """Twenty at once: one batch, no error."""
    gens = []
    threads = [
        threading.Thread(target=lambda: gens.append(b.initialize("b1", tenant_id="t", item_count=5).name.gen))
        for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(gens) == 20
    assert len(set(gens)) == 1


@pytest.mark.parametrize("count", [-1, 1.5, True, "3", 10_000_001, float("nan")])
def test_counts_that_are_none_are_refused(b, redis_client, namespace, count):
    """At the call, and nothing is stored (C26)."""
    with pytest.raises(InvalidArgument, match="item_count"):
        b.initialize("b1", tenant_id="t", item_count=count)

    assert list(redis_client.scan_iter(f"{{{namespace}:*")) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"batch_id": ""}, {"batch_id": "x" * 257}, {"tenant_id": ""}, {"tenant_id": 5}, {"idempotency_key": ""},
        {"metadata": [1]}, {"metadata": {"a": float("nan")}}, {"metadata": {1: 2}}, {"metadata": {"a": "x" * 70_000}},
        {"processing_concurrency": -1}, {"processing_concurrency": True}, {"fill_timeout": 0}, {"fill_timeout": -1},
    ],
)  # fmt: skip
def test_bad_parameters_are_refused_before_anything_is_written(b, redis_client, namespace, wrong):
    """With a ValueError that names the rule."""
    with pytest.raises((InvalidArgument, ValueError)):
        b.initialize(**{"batch_id": "b1", "tenant_id": "t", **wrong})

    assert list(redis_client.scan_iter(f"{{{namespace}:*")) == []


def test_a_batch_of_nothing_completes(record, b):
    """At once when nobody works yet, and its callback runs once (C26)."""
    batch = b.initialize("b1", tenant_id="t", item_count=0)
    assert batch.progress().status == "completing"
    with pytest.raises((BatchClosed, IndexOutOfRange), match="'b1'"):
        batch.add(0, "x")
    record.drain()

    [result] = record.results
    assert (result.status, result.item_count, result.succeeded, result.failed) == ("completed", 0, 0, 0)
    assert batch.progress().status == "completed"


def test_sealing_an_empty_batch_completes_it(record, b):
    """A count that turned out to be nothing."""
    batch = b.initialize("b1", tenant_id="t")
    batch.seal()
    record.drain()

    assert [result.item_count for result in record.results] == [0]


@pytest.mark.parametrize(
    "name",
    ["a:b", "*", "{x}", "}{", "a b", "naïve-雪-😀", "../x", "%2F", "123", "a|b", "a\tb", "~callbacks"],
)
def test_hostile_names_are_only_names(record, b, name):
    """As tenant, batch and idempotency key: all items done, all calls answered (C19)."""
    batch = b.initialize(name, tenant_id=name, item_count=3, idempotency_key=name)
    batch.add_many([name, name, name])
    record.behave = lambda item: item.payload
    record.drain()

    assert dict(batch.results()) == {0: name, 1: name, 2: name}
    assert [info.batch_id for info in b.list(name)] == [name]
    assert record.results[0].batch_id == name
    assert {(item.tenant_id, item.batch_id) for item in record.items} == {(name, name)}


def test_the_namespace_belongs_to_batchqueue(b, redis_client, namespace):
    """A plain FairQueue would end items uncounted, so it is refused."""
    b.initialize("b1", tenant_id="t")
    with pytest.raises(SchemaMismatch, match="batchqueue"):
        FairQueue(redis_client, FairQueueOptions(namespace=namespace)).enqueue("x", tenant_id="t")


def test_a_handle_of_a_batch_that_is_gone_says_so(make_batches, clock):
    """Also when another batch has its name since."""
    b = make_batches(retention=10)
    b.on_process_item(lambda item: None)
    old = b.initialize("b1", tenant_id="t", item_count=0)
    b.run_once()
    clock.advance(11)
    b.sweep.run_once()
    new = b.initialize("b1", tenant_id="t")
    for call in (lambda: old.add(0, "x"), old.progress, old.seal, old.cancel, old.redrive_failures, old.retry_callback):
        with pytest.raises(UnknownBatch, match="'b1'"):
            call()

    assert new.progress().enqueued == 0
    new.cancel()


def test_options_are_checked_at_birth(monkeypatch):
    """Nothing is clamped."""
    for wrong in (
        {"consumer_count": 0}, {"default_concurrency": -1}, {"retention": -1}, {"retry": 3}, {"callback_retry": None},
        {"order": "fifo"}, {"order": ["oldest"]}, {"fill_timeout": 0}, {"visibility_timeout": 0}, {"namespace": "a b"},
        {"worker_queue_max_depth": 0}, {"heartbeat_interval": 60},
    ):  # fmt: skip
        with pytest.raises(ConfigurationError):
            BatchQueueOptions(**wrong)
    monkeypatch.setenv("BATCH_QUEUE_WORKER_QUEUE_MAX_DEPTH", "7")
    assert BatchQueueOptions().queue_options().worker_queue_max_depth == 7
    assert BatchQueueOptions(worker_queue_max_depth=9).queue_options().worker_queue_max_depth == 9
    monkeypatch.setenv("BATCH_QUEUE_WORKER_QUEUE_MAX_DEPTH", "many")
    with pytest.raises(ConfigurationError, match="BATCH_QUEUE_WORKER_QUEUE_MAX_DEPTH"):
        BatchQueueOptions()


def test_ids_are_checked_wherever_they_are_given(b):
    """In get and list too."""
    with pytest.raises(InvalidId):
        b.get("t", "")
    with pytest.raises(InvalidId):
        b.get("", "b")
    with pytest.raises(InvalidId):
        b.list("")
