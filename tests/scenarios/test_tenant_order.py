"""Which of a tenant's queues is next."""

from __future__ import annotations

import pytest

from fairqueue import ConfigurationError, FairQueueOptions


def served(q, n):
    """Queues of the next *n* messages, in order."""
    order = []
    for _ in range(n):
        [delivery] = q.receive()
        order.append(delivery.queue_id)
        delivery.complete()
    return order


def test_oldest_head_first_is_the_default(make_queue, clock):
    """A queue that came later waits for what is older in its tenant."""
    q = make_queue()
    q.enqueue_batch(range(3), tenant_id="t", queue_id="big")
    clock.advance(1)
    q.enqueue("x", tenant_id="t", queue_id="small")

    assert served(q, 4) == ["big"] * 3 + ["small"]


@pytest.mark.server
def test_round_robin_serves_queues_in_turn(make_queue, clock):
    """A small queue is not stuck behind its tenant's huge one, and a new queue joins at the end of the round."""
    q = make_queue(tenant_order="round_robin")
    q.enqueue_batch(range(9), tenant_id="t", queue_id="big")
    clock.advance(1)
    q.enqueue_batch(range(2), tenant_id="t", queue_id="small")
    q.enqueue_batch(range(2), tenant_id="t", queue_id="third")

    assert served(q, 6) == ["big", "small", "third", "big", "small", "third"]
    assert served(q, 7) == ["big"] * 7
    assert q.audit() == []


def test_what_comes_back_keeps_its_queues_turn(make_queue, clock):
    """A message that is handed back to the head of a queue does not move the queue in the round."""
    q = make_queue(tenant_order="round_robin", retry=None)
    q.enqueue_batch(range(3), tenant_id="t", queue_id="a")
    q.enqueue_batch(range(3), tenant_id="t", queue_id="b")
    [first] = q.receive()
    clock.advance(31)
    q.reclaimer.run_once()

    assert first.queue_id == "a"
    assert served(q, 4) == ["b", "a", "b", "a"]


def test_an_order_that_does_not_exist_is_refused():
    """With the names that do."""
    with pytest.raises(ConfigurationError, match="round_robin"):
        FairQueueOptions(tenant_order=["oldest"])
