"""Cases of due times, at full scale and by the wall clock."""

from __future__ import annotations

import signal
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from fairqueue import NewMessage, Worker

pytestmark = pytest.mark.faults


def test_c01_delayed_beyond_the_visibility_timeout(case):
    """C01: 20 messages with 8 s of delay, three workers, one restarted: 20 starts, each within 1 s of its time."""
    p = case.processes(threads=4, times=True, limit=50)
    p.start(3)
    p.q.enqueue_batch([NewMessage(payload={}, delay=8) for _ in range(20)], tenant_id="t")
    due = case.now() + 8000
    time.sleep(5)
    p.running[0].send_signal(signal.SIGTERM)
    assert p.running[0].wait(10) == 0
    p.start()
    assert [m.state for m in p.q.messages.list("t")] == ["delayed"] * 20
    assert (p.q.inflight.count(), p.q.groups.usage("t", "t")) == (0, (0, 50))
    assert p.lines("started") == []
    p.until(lambda: p.q.stats().get("completed", 0) == 20)

    times = {message: int(at) for message, at in p.lines("times")}
    due_at = {m: at for m, at in times.items() if not due - 100 <= at <= due + 1000}  # enqueued within those 100 ms
    assert due_at == {}
    assert [attempt for _, attempt, _ in p.lines("started")] == ["1"] * 20
    assert p.q.audit() == []


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
def test_c08_due_times_in_other_zones(case, monkeypatch, zone):
    """C08 a, b, d: aware times, UTC and local, start between 3.0 and 4.0 s; an hour ago is now."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        p = case.processes()
        started, all_in = {}, threading.Event()

        def handle(delivery):
            started[delivery.payload] = time.time()
            if len(started) == 3:
                all_in.set()

        worker = Worker(p.q, handle, threads=2)
        worker.start()
        now = datetime.now(UTC)
        p.q.enqueue("utc", tenant_id="t", not_before=now + timedelta(seconds=3))
        p.q.enqueue("local", tenant_id="t", not_before=now.astimezone() + timedelta(seconds=3))
        p.q.enqueue("past", tenant_id="t", not_before=now - timedelta(hours=1))
        assert all_in.wait(10)
        worker.stop()
    finally:
        monkeypatch.undo()
        time.tzset()
    waited = {name: at - now.timestamp() for name, at in started.items()}
    assert waited["past"] < 1
    assert 3.0 <= waited["utc"] <= 4.0
    assert 3.0 <= waited["local"] <= 4.0
