"""Cases of leases, limits and ids, at full scale and by the wall clock."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from fairqueue import FixedDelay, LeaseLost

pytestmark = pytest.mark.faults


def taken(q, n=1, seconds=5.0):
    """Deliveries until there are *n*."""
    found, end = [], time.monotonic() + seconds
    while len(found) < n and time.monotonic() < end:
        found += q.receive(max_messages=n - len(found), wait=0.2)
    return found


def test_c02_a_late_ack(case):
    """C02: A stalls past its lease, B has the message: A's ack says so and changes nothing; N waits for B."""
    q = case.processes(limit=1).q
    with q.running():
        q.enqueue("M", tenant_id="t", message_id="M")
        [a] = taken(q)
        time.sleep(3)
        [b] = taken(q)
        q.enqueue("N", tenant_id="t")
        with pytest.raises(LeaseLost):
            a.complete()
        assert q.messages.get("t", "default", "M").state == "leased"
        assert q.groups.usage("t", "t") == (1, 1)
        assert q.receive(wait=0.5) == []
        time.sleep(1)
        b.complete()
        [n] = taken(q, seconds=1)
        n.complete()
    stats = q.stats()
    assert (n.payload, stats["completed"], stats["in_flight"]) == ("N", 2, 0)
    assert q.groups.usage("t", "t") == (0, 1)
    assert q.audit() == []


def test_c03_ten_rounds_of_leases_that_run_out(case):
    """C03: both messages can be taken again within visibility + 2 sweeps, slots go 2, 0, 2, ten times over."""
    q = case.processes(limit=2, max_deliveries=None).q
    q.enqueue_batch(["a", "b"], tenant_id="t")
    used = []
    with q.running():
        for n in range(1, 11):
            pair = taken(q, 2)
            assert [(d.payload, d.attempt) for d in pair] == [("a", n), ("b", n)]
            used.append(q.groups.usage("t", "t")[0])
            end = time.monotonic() + 3
            while q.groups.usage("t", "t")[0] and time.monotonic() < end:
                time.sleep(0.02)
            used.append(q.groups.usage("t", "t")[0])
        last = taken(q, 2, seconds=3)
        assert [d.attempt for d in last] == [11, 11]
        for delivery in last:
            delivery.complete()
    assert used == [2, 0] * 10
    assert (q.stats()["completed"], q.groups.usage("t", "t")) == (2, (0, 2))
    assert q.audit() == []


@pytest.mark.parametrize("limit", [1, 3])
def test_c04_a_limit_over_eight_processes(case, limit):
    """C04: 500 messages, 8 processes of 8 threads: the most at once is the limit, exactly."""
    p = case.processes(threads=8, limit=limit, visibility_timeout=10)
    p.q.enqueue_batch([{"count": f"{p.namespace}:n", "sleep": 0.005}] * 500, tenant_id="t")
    p.start(8)
    p.until(lambda: p.q.stats().get("completed", 0) == 500)
    assert int(case.client.get(f"{p.namespace}:n:most")) == limit
    assert len({line[0] for line in p.lines("started")}) == len(p.lines("started")) == 500
    assert p.q.groups.usage("t", "t") == (0, limit)
    for process in p.running:
        process.send_signal(signal.SIGTERM)
    assert [process.wait(10) for process in p.running] == [0] * 8
    assert p.q.audit() == []


def test_c22_the_same_id_in_every_state(case):
    """C22: while X lives, dead included, later enqueues say so and change nothing; done frees it; 1 of 20 creates Y."""
    p = case.processes(retry=FixedDelay(2, 0.5))
    q, seen = p.q, []

    def again():
        receipt = q.enqueue("second", tenant_id="t", message_id="X")
        assert receipt.message_id == "X"
        return receipt.created

    assert q.enqueue("first", tenant_id="t", message_id="X").created
    assert not again()
    [one] = taken(q)
    assert not again()
    seen.append(one.payload)
    one.fail("no")
    assert not again()
    [two] = taken(q)
    seen.append(two.payload)
    two.fail("no")
    assert q.messages.get("t", "default", "X").state == "dead"
    assert not again()
    assert q.dead_letters.redrive("t", "default", "X")
    [three] = taken(q)
    seen.append(three.payload)
    assert q.enqueue("other", tenant_id="u", message_id="X").created
    three.complete()
    assert seen == ["first"] * 3
    assert again()
    assert {(d.tenant_id, d.payload) for d in taken(q, 2)} == {("u", "other"), ("t", "second")}

    created = []
    threads = [
        threading.Thread(target=lambda: created.append(q.enqueue(1, tenant_id="t", message_id="Y").created))
        for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(created) == [False] * 19 + [True]
