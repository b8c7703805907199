"""Batch queues on the test's namespace and clock, stepped without threads."""

from __future__ import annotations

import pytest

from batchqueue import BatchQueue, BatchQueueOptions
from fairqueue.client import connect


class Recorder:
    """Callbacks that keep what they were given; *behave* decides what an item comes to."""

    def __init__(self, b, behave=None):
        self.b, self.items, self.results = b, [], []
        self.behave = behave or (lambda item: None)
        self.on_end = lambda result: None
        b.on_process_item(self.process)
        b.on_batch_complete(self.complete)

    def process(self, item):
        self.items.append(item)
        return self.behave(item)

    def complete(self, result):
        self.results.append(result)
        self.on_end(result)

    def drain(self):
        """Process until nothing is due."""
        while self.b.run_once():
            pass
        return self


@pytest.fixture
def make_batches(server_url, namespace, clock):
    """Batch queues; ``clock=None`` takes the server's."""
    opened = []

    def make(*, clock=clock, hooks=(), **options):
        client = connect(server_url)
        b = BatchQueue(client, BatchQueueOptions(namespace=namespace, **options), clock=clock, hooks=hooks)
        opened.append((b, client))
        return b

    yield make
    for b, client in opened:
        assert b.audit() == []
        b.close()
        client.close()


@pytest.fixture
def b(make_batches):
    return make_batches()


@pytest.fixture
def record(b):
    return Recorder(b)
