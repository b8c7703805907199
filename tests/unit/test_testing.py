"""The helpers for tests of applications."""

from __future__ import annotations

import pytest

from fairqueue import FairQueue, FairQueueOptions, InvalidArgument, OutcomeUnknown, Unavailable
from fairqueue.testing import Collected, FlakyRedis, ManualClock, drain

pytest_plugins = ["pytester"]


def test_a_manual_clock_only_moves_on():
    """It stands until advanced and refuses to go back."""
    clock = ManualClock(1000)
    clock.advance(1.5)
    clock.advance(ms=3)
    assert clock.now_ms() == 2503
    with pytest.raises(InvalidArgument):
        clock.advance(-1)


def test_drain_handles_everything_in_order(make_queue):
    """drain() runs the handler on all that is due and gives the deliveries."""
    hook = Collected()
    q = make_queue(hooks=[hook])
    q.enqueue_batch(["a", "b"], tenant_id="t")
    q.enqueue("later", tenant_id="t", delay=5)

    assert [d.payload for d in drain(q, lambda _: None)] == ["a", "b"]
    assert [type(e).__name__ for e in hook.events] == ["Enqueued", "Enqueued", *["Started", "Settled"] * 2]


def test_a_flaky_redis_is_down_when_told(redis_client, namespace):
    """A server that is gone is Unavailable, a lost reply is OutcomeUnknown, and both name the message."""
    client = FlakyRedis(redis_client)
    q = FairQueue(client, FairQueueOptions(namespace=namespace))
    q.enqueue(1, tenant_id="t")
    client.lose_replies(1)
    with pytest.raises(OutcomeUnknown, match="'x'") as lost:
        q.enqueue(2, tenant_id="t", message_id="x")
    assert lost.value.message_id == "x"
    client.go_down()
    with pytest.raises(Unavailable, match="'y'"):
        q.enqueue(3, tenant_id="t", message_id="y")
    client.heal()
    assert not q.enqueue(2, tenant_id="t", message_id="x").created
    client.lose_replies(1)
    [first] = q.receive()
    assert first.payload == 1
    client.lose_replies(1)
    first.complete()
    assert q.stats()["completed"] == 1
    assert [d.payload for d in q.receive(max_messages=5)] == [2]
    client.close()


def test_fixtures_come_with_the_package(pytester):
    """`fairqueue` is a queue of its own for a test."""
    pytester.makepyfile(
        """
        def test_it(fairqueue):
            fairqueue.enqueue("hello", tenant_id="t")
            assert [d.payload for d in fairqueue.receive()] == ["hello"]
        """
    )
    pytester.runpytest_subprocess("-q", "-p", "no:valkey").assert_outcomes(passed=1)
