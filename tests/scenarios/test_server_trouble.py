"""The server goes away and comes back, forgets scripts, drops connections: workers carry on by themselves."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest
import redis

from fairqueue import FairQueue, FairQueueError, Worker
from fairqueue.embedded import EmbeddedServer
from fairqueue.testing import Collected
from tests.proxy import Proxy
from tests.scenarios.test_worker import Handled, settled


def test_workers_outlive_a_restart_of_the_server(tmp_path):
    """Killed and restarted on the same data: the worker goes on by itself, and its loops say little meanwhile."""
    hook = Collected()
    server = EmbeddedServer(tmp_path).start()
    with Proxy(server.url) as proxy:
        q = FairQueue.connect(proxy.url, hooks=[hook], visibility_timeout=1, reclaim_interval=0.1)
        handled = Handled()
        worker = Worker(q, handled)
        q.enqueue_batch(range(50), tenant_id="t")
        worker.start()
        handled.wait_for(50)
        os.kill(server.pid, signal.SIGKILL)
        threading.Event().wait(1.0)
        server.stop()
        server = EmbeddedServer(tmp_path).start()
        proxy.forward_to(server.url)
        end = time.monotonic() + 20
        while True:
            try:
                q.enqueue("after", tenant_id="u")
                break
            except FairQueueError:
                assert time.monotonic() < end
        handled.wait_for(51)
        settled(q, completed=51, in_flight=0)
        while not all(worker.health().values()):
            assert time.monotonic() < end
            threading.Event().wait(0.01)
        worker.stop()
        assert "after" in {d.payload for d in handled.deliveries}
        failures = [e for e in hook.events if type(e).__name__ == "LoopFailed"]
        assert 0 < len(failures) < 40
        assert q.audit() == []
        q.close()
    server.stop()


def test_forgetting_scripts_under_load_is_not_noticed(own_server):
    """SCRIPT FLUSH again and again: every message is done once (C15)."""
    q = FairQueue.connect(own_server.url)
    admin = redis.Redis.from_url(own_server.url)
    handled = Handled()
    worker = Worker(q, handled)
    worker.start()
    for n in range(60):
        q.enqueue_batch([f"{n}-{i}" for i in range(5)], tenant_id=f"t{n % 7}")
        admin.script_flush()
    handled.wait_for(300)
    settled(q, completed=300, in_flight=0)
    worker.stop()
    assert len({d.payload for d in handled.deliveries}) == len(handled.deliveries)
    admin.close()
    q.close()


def test_an_idle_worker_is_woken_after_its_connections_were_killed(own_server):
    """CLIENT KILL of everything: the subscription comes back, and a message starts soon."""
    q = FairQueue.connect(own_server.url)
    admin = redis.Redis.from_url(own_server.url)
    handled = Handled()
    worker = Worker(q, handled)
    worker.start()
    q.enqueue(1, tenant_id="t")
    handled.wait_for(1)
    for kind in ("normal", "pubsub"):
        admin.client_kill_filter(_type=kind, skipme=True)
    threading.Event().wait(0.5)
    q.enqueue(2, tenant_id="t")
    handled.wait_for(2, seconds=8)
    settled(q, completed=2)
    worker.stop()
    admin.close()
    q.close()


@pytest.mark.parametrize("cut", ["cut_reply", "cut_request"])
def test_lost_calls_of_a_worker_have_one_effect(own_server, cut):
    """Requests and replies are lost all along: each message is handled, completed once, and the books balance."""
    with Proxy(own_server.url) as proxy:
        q = FairQueue.connect(proxy.url)
        handled = Handled()
        worker = Worker(q, handled, threads=4, dispatch=False)
        q.enqueue_batch(range(200), tenant_id="t")
        for n in range(5):
            q.enqueue_batch([f"{n}-{i}" for i in range(40)], tenant_id=f"t{n}")
        worker.start()
        for n in range(12):
            handled.wait_for(20 * n)
            getattr(proxy, cut)(b"EVALSHA")
        handled.wait_for(400)
        settled(q, completed=400, in_flight=0)
        worker.stop()
        assert len({d.payload for d in handled.deliveries}) == len(handled.deliveries) == 400
        assert q.audit() == []
        q.close()
