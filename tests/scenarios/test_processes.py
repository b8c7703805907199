"""Worker processes: signals, kills, limits over processes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time

import pytest

from fairqueue import ConcurrencyGroup, FairQueue

SOON = 20.0  # seconds: only a broken run waits so long


class Processes:
    """Worker processes on one server and namespace, and a queue to feed them."""

    def __init__(self, url, redis_client, namespace, **options):
        self.url, self.notes, self.namespace = url, redis_client, namespace
        self.options = options
        self.running = []
        self.q = FairQueue.connect(
            url,
            namespace=namespace,
            concurrency_groups=[
                ConcurrencyGroup(
                    name="t",
                    group_id=lambda m: m.tenant_id,
                    default_limit=options.get("limit"),
                    limit=(lambda _: int(redis_client.get(options["live"]))) if "live" in options else None,
                )
            ],
            **{k: v for k, v in options.items() if k not in {"threads", "prefetch", "grace", "limit", "live", "times"}},
        )

    def start(self, n=1):
        settings = json.dumps(self.options)
        command = [sys.executable, "-m", "tests.worker_process", self.url, self.namespace, settings]
        new = [subprocess.Popen(command) for _ in range(n)]
        self.running += new
        self.until(lambda: int(self.notes.get(f"{self.namespace}:up") or 0) >= len(self.running))
        return new

    def lines(self, kind):
        return [line.decode().split() for line in self.notes.lrange(f"{self.namespace}:{kind}", 0, -1)]

    def until(self, true, what="it did not happen"):
        end = time.monotonic() + SOON
        while not true():
            assert time.monotonic() < end, (what, self.q.stats(), self.lines("started")[-5:])
            threading.Event().wait(0.01)

    def close(self):
        for process in self.running:
            if process.poll() is None:
                process.kill()
            process.wait()
        self.q.close()
        self.notes.delete(*(f"{self.namespace}:{k}" for k in ("started", "ended", "up", "n", "n:most")))


@pytest.fixture
def processes(server_url, redis_client, namespace):
    made = []

    def make(**options):
        made.append(Processes(server_url, redis_client, namespace, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_sigterm_finishes_what_runs_and_frees_the_rest(processes):
    """The four that run end once and exit is 0; everything else is there at once, nothing charged (C13)."""
    p = processes(threads=4, prefetch=6)
    p.q.enqueue_batch([{"sleep": 0.5}] * 20, tenant_id="t")
    [process] = p.start()
    p.until(lambda: len(p.lines("started")) >= 4)
    process.send_signal(signal.SIGTERM)
    assert process.wait(SOON) == 0

    started, ended = p.lines("started"), p.lines("ended")
    assert sorted(started) == sorted(ended)
    assert len({line[0] for line in started}) == len(started)
    rest = p.q.receive(max_messages=50)
    assert len(rest) == 20 - len(started)
    assert {(d.attempt, d.deliveries) for d in rest} == {(1, 1)}
    assert p.q.audit() == []


def test_a_second_signal_hurries(processes):
    """Handlers that run are not waited for; their messages are free at once."""
    p = processes(threads=2)
    p.q.enqueue_batch([{"sleep": 60}] * 2, tenant_id="t")
    [process] = p.start()
    p.until(lambda: len(p.lines("started")) == 2)
    process.send_signal(signal.SIGTERM)
    threading.Event().wait(0.2)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    process.wait(SOON)
    assert len(p.q.receive(max_messages=5)) == 2
    assert p.q.audit() == []


def test_a_killed_worker_loses_nothing(processes):
    """Kill -9 in the middle: after the visibility timeout its messages run again elsewhere, attempt 2."""
    p = processes(threads=4, visibility_timeout=0.6, reclaim_interval=0.1, limit=8)
    p.q.enqueue_batch([{"sleep": 0.2}] * 12, tenant_id="t")
    [first] = p.start()
    p.until(lambda: len(p.lines("started")) >= 6)
    first.kill()
    first.wait()
    p.start()
    p.until(lambda: p.q.stats().get("completed", 0) == 12)

    ended = {line[0] for line in p.lines("ended")}
    assert len(ended) == 12
    assert max(int(attempt) for _, attempt, _ in p.lines("started")) == 2
    assert p.q.groups.usage("t", "t") == (0, 8)
    assert p.q.audit() == []


def test_a_message_that_kills_its_workers_is_dead_in_the_end(processes):
    """Started exactly max_deliveries times, then dead with the worker named as lost; its neighbours are done (C10)."""
    p = processes(threads=1, visibility_timeout=0.4, reclaim_interval=0.1, max_deliveries=3)
    p.q.enqueue({"exit": 137}, tenant_id="t", message_id="killer")
    p.q.enqueue_batch([{}] * 20, tenant_id="t")
    p.q.enqueue_batch([{}] * 20, tenant_id="u")
    p.start()
    deaths = 0

    def supervise():
        nonlocal deaths
        if p.running[-1].poll() is not None:
            deaths += 1
            p.running[-1].wait()
            p.start()
        return p.q.stats().get("completed", 0) == 40 and p.q.dead_letters.count("t") == 1

    p.until(supervise)
    assert deaths == 3
    assert [line[0] for line in p.lines("started")].count("killer") == 3
    [letter] = p.q.dead_letters.list("t")
    assert (letter.message_id, letter.deliveries) == ("killer", 3)
    assert "worker lost" in letter.reason
    assert p.q.audit() == []


@pytest.mark.parametrize("limit", [1, 3])
def test_a_limit_holds_over_processes(processes, limit):
    """Eight processes of eight threads: never more than the limit at once (C04)."""
    p = processes(threads=8, limit=limit)
    p.q.enqueue_batch([{"count": f"{p.namespace}:n", "sleep": 0.002}] * 300, tenant_id="t")
    p.start(8)
    p.until(lambda: p.q.stats().get("completed", 0) == 300)
    assert int(p.notes.get(f"{p.namespace}:n:most")) == limit
    assert len({line[0] for line in p.lines("started")}) == len(p.lines("started")) == 300
    assert p.q.groups.usage("t", "t") == (0, limit)
    for process in p.running:
        process.send_signal(signal.SIGTERM)
    assert [process.wait(SOON) for process in p.running] == [0] * 8
    assert p.q.audit() == []


def test_a_live_limit_holds_over_processes(processes, namespace, redis_client):
    """A callable in every process: never more than it says, and more once it says more (C04)."""
    key = f"{namespace}:limit"
    redis_client.set(key, 2)
    p = processes(threads=4, limit=9, live=key, limit_ttl=0.1)
    counted = {"count": f"{p.namespace}:n", "sleep": 0.005}
    p.q.enqueue_batch([counted] * 300, tenant_id="t")
    p.start(3)
    p.until(lambda: p.q.stats()["completed"] >= 100)
    assert int(p.notes.get(f"{p.namespace}:n:most")) == 2
    redis_client.set(key, 6)
    p.until(lambda: p.q.stats()["completed"] == 300)
    assert 3 <= int(p.notes.get(f"{p.namespace}:n:most")) <= 6
    for process in p.running:
        process.send_signal(signal.SIGTERM)
    assert [process.wait(SOON) for process in p.running] == [0] * 3
    assert p.q.audit() == []
    redis_client.delete(key)


def test_twenty_threads_and_one_id(processes):
    """Exactly one of them is told that it created the message (C22)."""
    p = processes()
    created = []

    def enqueue():
        created.append(p.q.enqueue(1, tenant_id="t", message_id="same").created)

    threads = [threading.Thread(target=enqueue) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(created) == [False] * 19 + [True]
    assert p.q.queues.length("t") == 1
