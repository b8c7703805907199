"""Many callers at once are as fair as one (FT14)."""

from __future__ import annotations

import re
import threading

import pytest

from tests.fairness.test_fairness import worst_lag

pytestmark = pytest.mark.server
THREADS = 8


class Watched:
    """The calls of a server in the order it ran them, as MONITOR tells."""

    def __init__(self, client):
        self.monitor, self.calls = client.monitor(), []
        self.thread = threading.Thread(target=self._listen)
        self.client = client

    def __enter__(self):
        self.monitor.__enter__()
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.client.echo("the end")
        self.thread.join()
        self.monitor.__exit__(None, None, None)

    def _listen(self):
        for told in self.monitor.listen():
            if told["command"].startswith("ECHO"):
                return
            if told["client_type"] != "lua":
                self.calls.append(told["command"])


@pytest.mark.parametrize("weights", [(1, 1, 1, 1), (1, 1, 2, 4)])
def test_ft14_eight_callers_are_fair_together(make_queue, redis_client, weights):
    """FT14: what eight threads take, in the server's order, keeps the bound of one; no message is taken twice."""
    q = make_queue()
    for i, weight in enumerate(weights):
        q.tenants.set(f"t{i}", weight=weight)
        q.enqueue_batch(range(60 * weight), tenant_id=f"t{i}")
    taken, lock = {}, threading.Lock()

    def take(n):
        for _ in range(n):
            for delivery in q.receive(max_messages=5):
                with lock:
                    taken.setdefault(delivery.token, []).append((delivery.tenant_id, delivery.id))
                delivery.complete()

    calls = 50 * sum(weights) // (5 * THREADS)
    with Watched(redis_client) as watched:
        threads = [threading.Thread(target=take, args=(calls,)) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    by_call = {}
    for token in taken:
        call, _, n = token.rpartition("-")
        by_call.setdefault(call, []).append((int(n), token))
    order = []
    for command in reversed(watched.calls):  # the last sending of a call is the one that was done
        for word in re.findall(r"\S+", command):
            order += [taken[token] for _, token in sorted(by_call.pop(word, []), reverse=True)]
    order.reverse()
    assert by_call == {}
    assert len(order) == calls * THREADS * 5
    assert max(len(deliveries) for deliveries in order) == 1
    tenants = [deliveries[0][0] for deliveries in order]
    for i, wi in enumerate(weights):
        for j, wj in enumerate(weights[:i]):
            lag = worst_lag(tenants, f"t{i}", f"t{j}", wi, wj, skip=2 * len(weights))
            assert lag <= 1 / wi + 1 / wj + 1e-9
