"""Nothing is left behind, and nothing private gets out."""

from __future__ import annotations

import logging

import pytest

from fairqueue import FixedDelay
from fairqueue.testing import Collected
from tests.batches.conftest import Recorder


@pytest.mark.server
def test_two_rounds_of_work_leave_the_same(make_batches, clock, redis_client, namespace):
    """Many tenants and batches, some items failing once: drained and past retention, the keys are the start's (C18)."""
    b = make_batches(retention=5, retry=FixedDelay(3, 0.1))
    record = Recorder(b, lambda item: 1 / 0 if item.index == 0 and item.attempt == 1 else None)
    left = []
    for _ in range(2):
        for i in range(120):
            b.initialize(f"batch-{i}", tenant_id=f"tenant-{i % 40}", item_count=3, idempotency_key=f"k{i}").add_many(
                "abc"
            )
        for _ in range(3):
            record.drain()
            clock.advance(0.2)
        clock.advance(6)
        while b.sweep.run_once():
            pass
        keys = sorted(key.decode() for key in redis_client.scan_iter(f"{{{namespace}:*"))
        left.append([key for key in keys if not key.endswith(":idle:default")])

    assert left[0] == left[1] == [f"{{{namespace}:0}}"]
    assert len(record.results) == 240
    fields = redis_client.hkeys(f"{{{namespace}:0}}")
    assert not [field for field in fields if b"tenant-" in field or b"batch-" in field]
    assert len(b._handler._known) <= 1024


def test_what_a_process_remembers_is_bounded(make_batches):
    """Metadata of the last 1,024 batches."""
    b = make_batches()
    b.on_process_item(lambda item: None)
    for i in range(1100):
        b._handler._metadata("t", f"b{i}", "gen")
    assert len(b._handler._known) == 1024


def test_payloads_reach_no_log_event_or_repr(make_batches, caplog):
    """Through success, retry, failure, callback and redrive (C25)."""
    caplog.set_level(logging.DEBUG)
    marker = "s3cr3t-marker"
    told = Collected()
    b = make_batches(retry=FixedDelay(2, 0), hooks=[told])
    shown = []

    def behave(item):
        shown.append(repr(item))
        if item.index == 1:
            raise ValueError

    record = Recorder(b, behave)
    record.on_end = lambda result: shown.append(repr(result)) or shown.extend(map(repr, result.failures()))
    batch = b.initialize("b1", tenant_id="t", item_count=3, metadata={"token": marker})
    shown.append(repr(batch.add_many([{"password": marker}, marker, [marker]])))
    record.drain()
    batch.redrive_failures()
    record.drain()
    shown += [
        repr(batch),
        repr(batch.progress()),
        repr(batch.failures().items),
        repr(b.list().items),
        repr(batch._record),
    ]
    shown += [repr(event) for event in told.events] + [record.getMessage() for record in caplog.records]

    assert told.events
    assert not [text for text in shown if marker in text]


def test_the_audit_finds_what_does_not_agree(make_batches, redis_client):
    """A figure, a mark or a record that was tampered with."""
    b = make_batches()
    record = Recorder(b, lambda item: 1 / 0 if item.index else None)
    b.initialize("b1", tenant_id="t", item_count=4).add_many("abc")
    record.drain()
    assert b.audit() == []
    root = b.queue.keys.root(0)
    for break_it, mend_it, what in (
        (("SETBIT", root + ":items:t/b1", 3, 1), ("SETBIT", root + ":items:t/b1", 3, 0), "items that are in"),
        (("SETBIT", root + ":succeeded:t/b1", 0, 0), ("SETBIT", root + ":succeeded:t/b1", 0, 1), "succeeded"),
        (("ZADD", root + ":failed:t/b1", 3, 3), ("ZREM", root + ":failed:t/b1", 3), "failed"),
        (
            ("HINCRBY", root + ":batch:t/b1", "succeeded", 5),
            ("HINCRBY", root + ":batch:t/b1", "succeeded", -5),
            "ended",
        ),
    ):
        redis_client.execute_command(*break_it)
        assert any(what in finding.text for finding in b.audit()), what
        redis_client.execute_command(*mend_it)
    assert b.audit() == []
