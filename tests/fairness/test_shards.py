"""Fairness across shards: the lowest clock first (FT17)."""

from __future__ import annotations

import random

import pytest

from fairqueue.shard_order import ShardOrder
from fairqueue.sharding import shard_of

SHARDS = 8
TENANTS = [f"tenant-{i}" for i in range(20)]


def jain(counts):
    """Jain's index: 1 when all are equal."""
    return sum(counts) ** 2 / (len(counts) * sum(n * n for n in counts))


class Run:
    """Callers on shards; each knows the clocks from the replies it had."""

    def __init__(self, make_queue, backlog, callers=1):
        self.callers = [make_queue(shard_count=SHARDS, visibility_timeout=40_000) for _ in range(callers)]
        self.served = dict.fromkeys(TENANTS, 0)
        for tenant in TENANTS:
            self.callers[0].enqueue_batch(range(backlog), tenant_id=tenant)

    def call(self, q, n):
        for delivery in q.receive(max_messages=n):
            self.served[delivery.tenant_id] = self.served.get(delivery.tenant_id, 0) + 1


def test_the_lowest_clock_makes_tenants_equal_across_shards(make_queue):
    """200 messages a tenant: Jain at least 0.999, most to least at most 1.02."""
    run = Run(make_queue, 220)
    for _ in range(200 * len(TENANTS)):
        run.call(run.callers[0], 1)
    counts = list(run.served.values())

    assert len({shard_of(tenant, SHARDS) for tenant in TENANTS}) > 4
    assert jain(counts) >= 0.999
    assert round(max(counts) / min(counts), 2) <= 1.02


def test_shards_in_turn_would_not(make_queue, monkeypatch):
    """The measure can fail: taking shards in turn serves tenants of crowded shards less."""
    run = Run(make_queue, 220)
    turn = iter(range(10**6))
    monkeypatch.setattr(
        ShardOrder, "order", lambda self, shards: [(i + n) % SHARDS for n in [next(turn)] for i in range(SHARDS)]
    )
    for _ in range(50 * len(TENANTS)):
        run.call(run.callers[0], 1)

    assert jain(list(run.served.values())) < 0.95


def test_eight_callers_with_stale_views_stay_fair(make_queue):
    """Each knows only its own replies, and takes ten at a time: Jain at least 0.99.

    A shard may run ahead by callers * batch / tenants on it, here 80 for a tenant alone on its shard.
    """
    run = Run(make_queue, 300, callers=8)
    rng = random.Random(17)
    for _ in range(20 * len(TENANTS)):
        run.call(rng.choice(run.callers), 10)

    assert round(jain(list(run.served.values())), 2) >= 0.99


@pytest.mark.parametrize("was_busy", [False, True])
def test_a_shard_that_was_idle_is_not_over_served(make_queue, was_busy):
    """Its tenant gets what the others get from then on, within 3, whether its clock is new or stood still."""
    run = Run(make_queue, 150)
    q = run.callers[0]
    taken = {shard_of(tenant, SHARDS) for tenant in TENANTS}
    free = next(shard for shard in range(SHARDS) if shard not in taken)
    newcomer = next(name for name in (f"new-{i}" for i in range(1000)) if shard_of(name, SHARDS) == free)
    if was_busy:
        q.enqueue("first", tenant_id=newcomer)
        q.enqueue("later", tenant_id=newcomer, delay=1000)
    for _ in range(100 * len(TENANTS)):
        run.call(q, 1)
    before = dict(run.served)
    q.enqueue_batch(range(100), tenant_id=newcomer)
    for _ in range(10 * (len(TENANTS) + 1)):
        run.call(q, 1)

    gained = {tenant: run.served[tenant] - before.get(tenant, 0) for tenant in run.served}
    assert abs(gained[newcomer] - 10) <= 3
    assert q.audit() == []


def test_the_floor_is_the_lowest_of_the_busy_others():
    """Idle shards say nothing about how far the others are; a single shard has no floor."""
    order = ShardOrder(range(3))
    order.note(0, 5, busy=False)
    order.note(1, 40, busy=True)
    order.note(2, 60, busy=True)

    assert [order.floor(shard) for shard in range(3)] == [40, 60, 40]
    assert order.order([2, 1, 0]) == [0, 1, 2]
    assert ShardOrder(range(2)).floor(0) == -1
    assert ShardOrder(range(1)).floor(0) is None
