"""Cases of fairness, at full scale and by the wall clock."""

from __future__ import annotations

import threading
import time

import pytest

from fairqueue import Worker

pytestmark = pytest.mark.faults

QUANTUM, THREADS = 1, 4


def run(q, start, total):
    """Feed with *start(order)*, work it off with four threads of 10 ms; order of starts, and seconds."""
    lock, order, done = threading.Lock(), [], threading.Event()

    def handle(delivery):
        with lock:
            order.append(delivery.tenant_id)
            if len(order) == total:
                done.set()
        time.sleep(0.01)

    worker = Worker(q, handle, threads=THREADS)
    began = time.monotonic()
    worker.start()
    start(order)
    assert done.wait(100)
    seconds = time.monotonic() - began
    worker.stop()
    return order, seconds


@pytest.mark.timeout(240)
def test_c05_a_flood_of_ten_thousand(case):
    """C05: C's one and B's ten start within the bound behind A's 10,000, and the whole takes at most 1.1 of A alone."""
    alone = case.processes().q
    alone.enqueue_batch(range(10_000), tenant_id="A")
    _, base = run(alone, lambda _: None, 10_000)

    q = case.processes().q
    q.enqueue_batch(range(10_000), tenant_id="A")
    before = []

    def late(order):
        time.sleep(1)
        before.append(len(order))
        q.enqueue_batch(range(10), tenant_id="B")
        q.enqueue(0, tenant_id="C")

    order, seconds = run(q, late, 10_011)
    places = {t: [i - before[0] for i, one in enumerate(order) if one == t] for t in "BC"}
    ahead = THREADS  # prefetch is off: a message is taken when a thread is free
    assert places["C"][0] <= 3 * QUANTUM + ahead + 4
    assert places["B"][9] <= 30 + 3 * QUANTUM + ahead + 4
    assert seconds <= 1.1 * base
    assert case.slow() == []
