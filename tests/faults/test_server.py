"""Full scale, with their timings: the server in trouble (C15, C16, C17 and every condition)."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
import time

import pytest
import redis
from structlog.testing import capture_logs

from fairqueue import FairQueue, FairQueueError, FairQueueOptions, OutcomeUnknown, ServerFull, Unavailable, Worker
from tests.conditions import CONDITIONS, client, read_only, site
from tests.scenarios.test_worker import Handled, settled

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]

SECONDS = 3.0  # from the end of the trouble to the next message's start
LINES = 5  # a second and process


class Lines:
    """Log lines with the time of each."""

    def __init__(self):
        self.at = []

    def __call__(self, _logger, _method, event):
        self.at.append((time.monotonic(), event.get("loop", event["event"])))
        return event

    def most(self, loop=None):
        """The most lines in any second, of one loop or of all."""
        times = [at for at, one in self.at if loop in {None, one}]
        return max((sum(start <= at < start + 0.99 for at in times) for start in times), default=0)


@pytest.fixture
def lines():
    counter = Lines()
    with capture_logs(processors=[counter]):
        yield counter


class Traffic:
    """Enqueues until it is told to stop; what was accepted must be done."""

    def __init__(self, q, pause=0.005):
        self.q, self.pause = q, pause
        self.accepted, self.refused = [], []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        for n in itertools.count():
            if self._stop.wait(self.pause):
                return
            try:
                self.accepted.append(self.q.enqueue(n, tenant_id=f"t{n % 5}").message_id)
            except FairQueueError as error:
                self.refused.append(error)

    def stop(self):
        self._stop.set()
        self._thread.join()


@pytest.mark.parametrize("name", CONDITIONS)
def test_recovery_within_three_seconds(tmp_path, lines, name):
    """Five seconds of each condition under traffic: work starts within 3 s of its end, and logs stay short."""
    condition, error, _, loops_fail = CONDITIONS[name]
    with site(tmp_path, visibility_timeout=10, reclaim_interval=0.5) as one:
        handled = Handled()
        worker = Worker(one.q, handled, threads=4)
        worker.start()
        traffic = Traffic(one.q)
        handled.wait_for(50)
        with condition(one):
            time.sleep(5)
        ended = time.monotonic()
        seen = len(handled.deliveries)
        while len(handled.deliveries) < seen + 5:
            assert time.monotonic() - ended < SECONDS
            time.sleep(0.005)
        while not all(worker.health().values()):
            assert time.monotonic() - ended < SECONDS
            time.sleep(0.005)
        traffic.stop()
        stats = one.q.stats()
        settled(one.q, completed=stats["enqueued"], in_flight=0)
        worker.stop()
        done = {d.id for d in handled.deliveries}
        assert set(traffic.accepted) <= done
        allowed = {error, Unavailable} if error else set()
        if name in {"gone", "dropped", "loading"}:
            allowed.add(OutcomeUnknown)  # a request was under way when its connection was cut
        assert {type(e) for e in traffic.refused} <= allowed
        assert one.q.audit() == []
    assert lines.at or not loops_fail
    assert lines.most() <= LINES
    assert all(lines.most(loop) <= 1 for _, loop in lines.at)


def test_a_demotion_with_claimers_blocked(tmp_path, lines):
    """Read-only for 3 s: refused within the timeout, never accepted and lost; work within 2 s of promotion (C15 b)."""
    with site(tmp_path, visibility_timeout=5) as one:
        handled = Handled()
        worker = Worker(one.q, handled, threads=8)
        one.q.enqueue(0, tenant_id="t")
        worker.start()
        handled.wait_for(1)
        waiting = []
        taker = threading.Thread(target=lambda: waiting.append(_takes(one.q)))
        taker.start()
        with read_only(one):
            for _ in range(30):
                start = time.monotonic()
                with pytest.raises(Unavailable):
                    one.q.enqueue(1, tenant_id="t")
                assert time.monotonic() - start < 1
                time.sleep(0.1)
        promoted = time.monotonic()
        one.q.enqueue("after", tenant_id="t", message_id="after")
        while "after" not in {d.id for d in handled.deliveries}:
            assert time.monotonic() - promoted < 2
            time.sleep(0.005)
        settled(one.q, completed=2, in_flight=0)
        worker.stop()
        taker.join()
        assert [d.deliveries for d in handled.deliveries] == [1, 1]
    assert lines.most() <= LINES


def _takes(q):
    try:
        return q.receive("elsewhere", wait=5)
    except FairQueueError as error:
        return error


def test_scripts_flushed_and_a_restart_under_load(tmp_path):
    """Five flushes and a restart under steady traffic: nobody sees NOSCRIPT, everything accepted is done (C15 a)."""
    with site(tmp_path, visibility_timeout=2, reclaim_interval=0.2) as one:
        handled = Handled()
        worker = Worker(one.q, handled, threads=8)
        worker.start()
        traffic = Traffic(one.q, pause=0.001)
        for _ in range(5):
            time.sleep(0.5)
            with one.admin as admin:
                admin.script_flush()
        assert traffic.refused == []
        one.kill()
        one.restart()
        time.sleep(2)
        traffic.stop()
        settled(one.q, completed=one.q.stats()["enqueued"], in_flight=0)
        worker.stop()
        assert "NOSCRIPT" not in " ".join(str(error) for error in traffic.refused)
        assert set(traffic.accepted) <= {d.id for d in handled.deliveries}
        assert one.q.audit() == []


def test_a_full_server_with_everything_on_it(own_server):
    """Waiting, running, delayed and due: enqueue is refused, the rest works, and all of it drains (C16)."""
    admin = client(own_server.url)
    q = FairQueue.connect(own_server.url)
    handled = Handled()
    running = [q.enqueue({"pad": "x" * 500}, tenant_id="r") and q.receive()[0] for _ in range(5)]
    q.enqueue_batch([{"pad": "x" * 500}] * 200, tenant_id="t")
    q.enqueue_batch([{"pad": "x" * 500}] * 20, tenant_id="purged")
    q.enqueue_batch([{"pad": "x" * 500}] * 50, tenant_id="d", queue_id="delayed")
    for n in range(50):
        q.enqueue(n, tenant_id="d", delay=0.2)
    time.sleep(0.3)
    admin.config_set("maxmemory", 1_000_000)
    before = q.stats()
    for _ in range(20):
        with pytest.raises(ServerFull):
            q.enqueue(1, tenant_id="t")
    assert q.stats() == before
    assert q.queues.length("t") == 200
    assert q.queues.peek("t")
    assert len(list(q.inflight.list())) == 5
    for delivery in running:
        delivery.complete()
    assert q.queues.purge("purged") == 20
    worker = Worker(q, handled, threads=8)
    worker.start()
    handled.wait_for(300)
    settled(q, completed=305, in_flight=0)
    admin.config_set("maxmemory", 0)
    q.enqueue("after", tenant_id="t")
    handled.wait_for(301)
    settled(q, completed=306, in_flight=0)
    worker.stop()
    assert len({d.id for d in handled.deliveries}) == len(handled.deliveries)
    assert q.audit() == []
    q.close()
    admin.close()


def test_a_small_pool_under_load_and_idle(server_url, namespace, lines):
    """5 connections, 1 s socket timeout, 40 + 40 threads with waits of 5 s; then 30 s idle and one more (C17)."""
    admin = redis.Redis.from_url(server_url)
    others = len(admin.client_list())
    own = redis.Redis.from_url(server_url, max_connections=5, socket_timeout=1)
    q = FairQueue(own, FairQueueOptions(namespace=namespace))
    handled, errors, most = Handled(), [], 0
    worker = Worker(q, handled, threads=40)
    worker.start()

    def produce(k):
        try:
            for n in range(50):
                q.enqueue(n, tenant_id=f"t{k}")
        except Exception as error:  # noqa: BLE001 - told below
            errors.append(error)

    def take():
        try:
            q.receive("elsewhere", wait=5)
        except Exception as error:  # noqa: BLE001 - told below
            errors.append(error)

    threads = [threading.Thread(target=produce, args=(k,)) for k in range(40)]
    threads += [threading.Thread(target=take) for _ in range(10)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        most = max(most, len(admin.client_list()) - others)
        time.sleep(0.05)
    handled.wait_for(2000)
    settled(q, completed=2000, in_flight=0)
    time.sleep(30)
    start = time.monotonic()
    q.enqueue("last", tenant_id="t")
    handled.wait_for(2001, seconds=1)
    assert time.monotonic() - start < 1
    assert all(worker.health().values())
    worker.stop()
    assert errors == []
    assert lines.at == []
    assert most <= 5 + 1  # the subscription
    q.close()
    own.close()
    admin.close()


def test_a_message_that_kills_its_workers(server_url, redis_client, namespace):
    """Two one-thread processes under a supervisor, 50 + 50 healthy messages: three deaths, then it is dead (C10)."""
    q = FairQueue.connect(server_url, namespace=namespace)
    q.enqueue({"exit": 137}, tenant_id="t", message_id="killer")
    for tenant in ("t", "u"):
        q.enqueue_batch([{}] * 50, tenant_id=tenant)
    settings = {"threads": 1, "visibility_timeout": 2, "reclaim_interval": 0.5, "max_deliveries": 3}

    def spawn():
        return subprocess.Popen(
            [sys.executable, "-m", "tests.worker_process", server_url, namespace, json.dumps(settings)]
        )

    processes, deaths = [spawn(), spawn()], 0
    try:
        end = time.monotonic() + 60
        while q.stats().get("completed", 0) < 100 or not q.dead_letters.count("t"):
            assert time.monotonic() < end, q.stats()
            for i, process in enumerate(processes):
                if process.poll() is not None:
                    assert process.returncode == 137
                    deaths += 1
                    processes[i] = spawn()
            time.sleep(0.05)
    finally:
        for process in processes:
            process.terminate()
        codes = [process.wait(20) for process in processes]
    started = [line.decode().split()[0] for line in redis_client.lrange(f"{namespace}:started", 0, -1)]
    assert codes == [0, 0]
    assert deaths == started.count("killer") == 3
    assert len(started) == len(set(started)) + 2 == 103
    [letter] = q.dead_letters.list("t")
    assert letter.message_id == "killer"
    assert letter.deliveries == 3
    assert "worker lost" in letter.reason
    assert q.audit() == []
    q.close()
    redis_client.delete(*(f"{namespace}:{name}" for name in ("started", "ended", "up")))
