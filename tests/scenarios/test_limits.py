"""Limits that a callable gives, live."""

from __future__ import annotations

import threading

import pytest
import structlog

from fairqueue import ConcurrencyGroup, NewMessage, NoRetry, Worker
from fairqueue.events import LimitFailed
from fairqueue.testing import Collected

pytestmark = pytest.mark.server


class Plan:
    """A callable whose answers are set, and the ids it was asked for."""

    def __init__(self, default=1, **limits):
        self.default, self.limits, self.asked = default, limits, []

    def __call__(self, group_id):
        self.asked.append(group_id)
        answer = self.limits.get(group_id, self.default)
        if isinstance(answer, BaseException):
            raise answer
        return answer


def group(plan, default=2, group_id=lambda m: m.tenant_id):
    return [ConcurrencyGroup(name="t", group_id=group_id, default_limit=default, limit=plan)]


def leftovers(redis_client, namespace):
    return [key for key in redis_client.scan_iter(f"{{{namespace}:*") if b"}:" in key]


def test_a_raised_limit_wakes_who_waits(make_queue, redis_client, namespace):
    """The callable says more: after limit_ttl the dispatcher asks, and the room is used; drained, nothing is left."""
    plan = Plan(a=1)
    q = make_queue(concurrency_groups=group(plan))
    q.enqueue_batch(range(10), tenant_id="a")
    taken = q.receive(max_messages=10)
    assert len(taken) == 1
    assert q.groups.usage("t", "a") == (1, 1)
    plan.limits["a"] = 4
    q.dispatcher.run_once()
    assert q.receive(max_messages=10) == []
    assert plan.asked == ["a"]

    q.clock.advance(5)
    q.dispatcher.run_once()
    taken += q.receive(max_messages=10)
    assert (len(taken), q.groups.usage("t", "a"), q.groups.capacity("t", "a")) == (4, (4, 4), 0)
    assert [g.limit for g in q.groups.blocking("a")] == [4]
    assert len(q.groups.holders("t", "a")) == 4
    plan.limits["a"] = None
    q.clock.advance(5)
    q.dispatcher.run_once()
    taken += q.receive(max_messages=10)
    assert (len(taken), q.groups.usage("t", "a")) == (10, (10, None))
    for delivery in taken:
        delivery.complete()
    assert q.audit() == []
    assert leftovers(redis_client, namespace) == []


def test_a_lowered_limit_grants_nothing_until_below(make_queue):
    """Also for a group that never was full; 0 pauses."""
    plan = Plan(a=5)
    q = make_queue(concurrency_groups=group(plan))
    q.enqueue_batch(range(10), tenant_id="a")
    taken = q.receive(max_messages=3)
    plan.limits["a"] = 2
    q.clock.advance(5)
    q.dispatcher.run_once()
    taken.pop().complete()
    assert q.receive(max_messages=5) == []
    taken.pop().complete()
    assert len(q.receive(max_messages=5)) == 1
    plan.limits["a"] = 0
    q.clock.advance(5)
    q.dispatcher.run_once()
    taken.pop().complete()
    assert q.receive(max_messages=5) == []


def test_set_limit_beats_the_callable_and_the_callable_the_default(make_queue):
    """In this order, and back again."""
    q = make_queue(concurrency_groups=group(Plan(1), default=5))
    assert q.groups.usage("t", "a") == (0, 1)
    q.enqueue_batch(range(9), tenant_id="a")
    assert len(q.receive(max_messages=9)) == 1
    q.groups.set_limit("t", "a", 3)
    assert len(q.receive(max_messages=9)) == 2
    q.groups.clear_limit("t", "a")
    assert q.groups.usage("t", "a") == (3, 1)
    assert q.receive(max_messages=9) == []


@pytest.mark.parametrize("wrong", [ValueError("down"), -1, 1.5, "3", True, float("nan"), 10**7])
def test_a_callable_that_fails_keeps_the_last_good_value(make_queue, wrong):
    """Before any: the default. It is told in events, asked once a ttl, and stops nobody else."""
    hook = Collected()
    plan = Plan(3, a=wrong)
    q = make_queue(concurrency_groups=group(plan, default=2), hooks=[hook])
    with structlog.testing.capture_logs() as lines:
        for _ in range(5):
            q.enqueue_batch(range(2), tenant_id="a")
        q.enqueue_batch(range(9), tenant_id="b")
        held = q.receive(max_messages=20)
        assert sorted(d.tenant_id for d in held) == ["a", "a", "b", "b", "b"]
        assert q.groups.usage("t", "a") == (2, 2)
        assert plan.asked == ["a", "b"]
        plan.limits["a"] = 4
        q.clock.advance(5)
        q.dispatcher.run_once()
        assert q.groups.usage("t", "a") == (2, 4)
        plan.limits["a"] = wrong
        q.clock.advance(5)
        q.dispatcher.run_once()
        assert q.groups.usage("t", "a") == (2, 4)
    assert [(e.group, e.group_id) for e in hook.of(LimitFailed)] == [("t", "a")] * 2
    assert [line["event"] for line in lines].count("fairqueue.limit_failed") == 1
    for delivery in held:
        delivery.complete()
    while more := q.receive(max_messages=20):
        for delivery in more:
            delivery.complete()
    q.enqueue("again", tenant_id="a")
    assert q.groups.usage("t", "a") == (0, 4), "its own last good answer, though the shard forgot it"
    assert q.audit() == []


def test_group_ids_come_as_they_were_given(make_queue):
    """A tuple stays a tuple, a tuple of one is its str."""
    plan = Plan(1)
    q = make_queue(concurrency_groups=group(plan, group_id=lambda m: m.metadata["ids"] and tuple(m.metadata["ids"])))
    q.enqueue(1, tenant_id="a", metadata={"ids": ["o", "p,q"]})
    q.enqueue(1, tenant_id="b", metadata={"ids": ["o"]})
    q.clock.advance(5)
    q.dispatcher.run_once()
    assert plan.asked[:2] == [("o", "p,q"), "o"]
    assert sorted(map(str, plan.asked[2:])) == sorted(map(str, plan.asked[:2]))
    assert q.groups.usage("t", ("o",)) == q.groups.usage("t", "o") == (1, 1)


def test_two_processes_ask_for_each_group_once(make_queue):
    """Every limit_ttl one of them asks, whoever comes first; both work with the answer."""
    plan = Plan(1)
    one, two = make_queue(concurrency_groups=group(plan)), make_queue(concurrency_groups=group(plan))
    for n in range(250):
        one.enqueue(1, tenant_id=f"t{n}")
        two.enqueue(2, tenant_id=f"t{n}")
    assert len(plan.asked) == 500
    plan.asked.clear()
    plan.default = 2
    one.clock.advance(5)
    one.dispatcher.run_once()
    two.dispatcher.run_once()
    assert len(plan.asked) == len(set(plan.asked)) == 250
    assert len(one.receive(max_messages=250)) + len(two.receive(max_messages=500)) == 500
    assert one.audit() == []


def test_a_failing_process_keeps_what_another_learned(make_queue):
    """Its own last good answer is older than the shard's."""
    here, there = Plan(2), Plan(4)
    one, two = make_queue(concurrency_groups=group(here)), make_queue(concurrency_groups=group(there))
    one.enqueue_batch(range(9), tenant_id="a")
    one.clock.advance(5)
    two.dispatcher.run_once()
    assert one.groups.usage("t", "a")[1] == 4
    here.default = ValueError("down")
    one.clock.advance(5)
    one.dispatcher.run_once()
    assert here.asked == ["a", "a"]
    assert one.groups.usage("t", "a")[1] == 4


def test_one_that_died_while_asking_is_followed_by_another(make_queue):
    """Its groups are free again after a second."""
    plan = Plan(1)
    q, other = make_queue(concurrency_groups=group(plan)), make_queue(concurrency_groups=group(plan))
    q.enqueue_batch(range(3), tenant_id="a")
    q.receive(max_messages=3)
    q.clock.advance(5)
    plan.limits["a"] = SystemExit()
    with pytest.raises(SystemExit):
        q.dispatcher.run_once()
    plan.limits["a"] = 3
    other.dispatcher.run_once()
    assert other.receive(max_messages=3) == []
    q.clock.advance(1)
    other.dispatcher.run_once()
    assert len(other.receive(max_messages=3)) == 2


def test_a_redriven_letter_has_its_limit(make_queue):
    """A group that was forgotten is asked for by the next dispatcher pass."""
    plan = Plan(1)
    q = make_queue(concurrency_groups=group(plan), retry=NoRetry())
    q.enqueue_batch([NewMessage(payload=n, message_id=str(n)) for n in range(3)], tenant_id="a")
    for _ in range(3):
        [delivery] = q.receive(max_messages=3)
        delivery.fail("x")
    assert q.dead_letters.redrive_all("a") == 3
    q.dispatcher.run_once()
    assert len(q.receive(max_messages=3)) == 1
    assert q.audit() == []


def test_what_is_remembered_is_bounded(make_queue, monkeypatch):
    """The answers kept in a process are the latest used."""
    monkeypatch.setattr("fairqueue.limits.REMEMBERED", 10)
    plan = Plan(1)
    q = make_queue(concurrency_groups=group(plan))
    for n in range(50):
        q.enqueue(1, tenant_id=f"t{n}")
        q.enqueue(1, tenant_id="t0")
    assert len(q.limits._said) == 10
    assert plan.asked.count("t0") == 1


def test_workers_follow_a_live_limit(make_queue):
    """Two workers on the server's clock: never more than the callable says, and more when it says more (C04)."""
    plan = Plan(one=2)
    queues = [make_queue(clock=None, concurrency_groups=group(plan), limit_ttl=0.05) for _ in range(2)]
    q = queues[0]
    q.enqueue_batch(range(400), tenant_id="one")
    lock, state = threading.Lock(), {"now": 0, "most": 0, "done": 0}
    all_done = threading.Event()

    def handle(_):
        with lock:
            state["now"] += 1
            state["most"] = max(state["most"], state["now"])
        threading.Event().wait(0.002)
        with lock:
            state["now"] -= 1
            state["done"] += 1
            if state["done"] == 100:
                assert state["most"] <= 2
                plan.limits["one"] = 5
            if state["done"] == 400:
                all_done.set()

    workers = [Worker(one, handle, threads=4) for one in queues]
    for worker in workers:
        worker.start()
    assert all_done.wait(30)
    for worker in workers:
        worker.stop()
    assert 3 <= state["most"] <= 5
    assert q.stats()["completed"] == 400
    assert q.audit() == []
