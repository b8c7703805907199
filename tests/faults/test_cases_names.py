"""Cases of names and payloads, with workers that run."""

from __future__ import annotations

import threading

import pytest

from fairqueue import FixedDelay, NewMessage, Worker
from tests.scenarios.test_payloads import PAYLOADS, same

pytestmark = pytest.mark.faults

NAMES = ["a:b", "*", "{x}", "}{", "a b", "naïve-雪-😀", "../x", "%2F", "123", "a|b", "a\tb"]


def test_c19_hostile_names(case):
    """C19: as tenant, queue and message id: all are done, listed, dead, redriven unchanged; a control never stalls."""
    q = case.processes(limit=5).q
    lock, seen, died, control = threading.Lock(), [], set(), threading.Semaphore(0)

    def handle(delivery):
        with lock:
            dies = delivery.payload == "dies" and delivery.tenant_id not in died
            if dies:
                died.add(delivery.tenant_id)
            seen.append((delivery.tenant_id, delivery.queue_id, delivery.id, delivery.payload))
        if delivery.tenant_id == "control":
            control.release()
        elif dies:
            delivery.fail("first time", dead=True)

    worker = Worker(q, handle, threads=4)
    worker.start()
    for name in NAMES:
        q.enqueue("control", tenant_id="control")
        assert control.acquire(timeout=2), name
        q.tenants.pause(name)
        q.queues.pause(name, name)
        q.enqueue("x", tenant_id=name, queue_id=name, message_id=name + "1", delay=0.5)
        q.enqueue("y", tenant_id=name, queue_id=name, message_id=name + "2")
        q.enqueue("dies", tenant_id=name, queue_id=name, message_id=name)
        assert name in q.tenants.list(limit=500).items
        assert [m.message_id for m in q.messages.list(name, name)] == [name + "2", name, name + "1"]
        assert [(i.queue_id, i.paused) for i in q.queues.list(name)] == [(name, True)]
        q.queues.resume(name, name)
        assert q.queues.length(name, name) == 3, "its tenant is paused"
        q.tenants.resume(name)
    pause = threading.Event()
    for _ in range(200):
        if sum(q.dead_letters.count(name) for name in NAMES) == len(NAMES):
            break
        pause.wait(0.05)
    for name in NAMES:
        [letter] = q.dead_letters.list(name)
        assert (letter.tenant_id, letter.queue_id, letter.message_id) == (name, name, name)
        assert q.dead_letters.redrive_all(name) == 1
    total = 4 * len(NAMES)
    for _ in range(200):
        if q.stats().get("completed", 0) == total:
            break
        pause.wait(0.05)
    worker.stop()
    assert q.stats()["completed"] == total
    for name in NAMES:
        assert {(queue, message) for tenant, queue, message, _ in seen if tenant == name} == {
            (name, name),
            (name, name + "1"),
            (name, name + "2"),
        }
    assert q.audit() == []


def test_c20_payloads_on_every_path(case):
    """C20: direct, delayed, retried twice, reclaimed, dead-lettered and redriven: equal, and of the same type."""
    q = case.processes(retry=FixedDelay(3, 0.1)).q
    lost = {}

    for path in ("direct", "delayed", "retried", "reclaimed", "dead"):
        delay = 1 if path == "delayed" else None
        q.enqueue_batch(
            [NewMessage(payload=value, delay=delay, message_id=f"{path} {n}") for n, value in enumerate(PAYLOADS)],
            tenant_id="t",
            queue_id=path,
        )
        if path == "reclaimed":  # taken by one who is never heard of again
            while len(lost) < len(PAYLOADS):
                for delivery in q.receive(max_messages=100):
                    if delivery.queue_id == path:
                        lost[delivery.id] = delivery
                    else:
                        delivery.release()
    lock, runs, arrived = threading.Lock(), {}, {}

    def handle(delivery):
        with lock:
            runs[delivery.id] = run = runs.get(delivery.id, 0) + 1
        path = delivery.queue_id
        if path == "retried" and run <= 2:
            raise ValueError("again")
        if path == "dead" and run == 1:
            delivery.fail("for now", dead=True)
            return
        arrived[delivery.id] = delivery.payload

    worker = Worker(q, handle, threads=4)
    worker.start()
    pause, redriven = threading.Event(), 0
    for _ in range(400):
        redriven += q.dead_letters.redrive_all("t")
        if q.stats().get("completed", 0) == 5 * len(PAYLOADS):
            break
        pause.wait(0.05)
    worker.stop()
    assert len(arrived) == 5 * len(PAYLOADS)
    assert redriven == len(PAYLOADS)
    for name, payload in arrived.items():
        assert same(payload, PAYLOADS[int(name.split()[1])]), name
    assert q.audit() == []
