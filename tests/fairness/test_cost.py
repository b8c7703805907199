"""What a dispatch costs, however many queues and tenants wait (FT7)."""

from __future__ import annotations

import pytest

from fairqueue import NewMessage
from fairqueue.store.inflight import Settlement

pytestmark = pytest.mark.server
N = 200
CHUNK = 500
NAMES = {
    "queues": lambda n: {"tenant_id": "t", "queue_id": f"q{n}"},
    "tenants": lambda n: {"tenant_id": f"t{n}"},
}


def fill(q, numbers, names):
    """One message for each number, each in a queue of its own."""
    made = [q.resolver.entry(NewMessage(payload=None, **names(n)), q.resolver.call_id())[1] for n in numbers]
    for at in range(0, len(made), CHUNK):
        q._producer.intake.add(q.opened(0), q.resolver.call_id(), made[at : at + CHUNK])


def cost(q, client):
    """Commands the server ran a message, of 200 that are dispatched, taken and completed in calls of ten."""
    before = commands(client)
    for _ in range(N // 10):
        taken = q.receive(max_messages=10)
        assert len(taken) == 10
        q.leases.settle(0, [Settlement(verb="complete", key=d.key, token=d.token) for d in taken])
    return (commands(client) - before) / N


def commands(client):
    stats = client.info("commandstats")
    return sum(one["calls"] for name, one in stats.items() if name not in {"cmdstat_evalsha", "cmdstat_info"})


@pytest.mark.parametrize("counts", [[210, 1000], pytest.param([210, 1000, 100_000], marks=pytest.mark.faults)])
@pytest.mark.parametrize("kind", NAMES)
def test_ft7_the_cost_is_flat(make_queue, redis_client, kind, counts):
    """FT7: commands a message are at most 20, and within 1.5 times of each other, whatever waits beside it."""
    q = make_queue()
    found, made = [], 0
    for count in counts:
        fill(q, range(made, count), NAMES[kind])
        made = count
        found.append(cost(q, redis_client))
    assert max(found) <= 20
    assert max(found) / min(found) <= 1.5
    q.close()
