"""Enqueue: new ids are stored once, in order."""

from __future__ import annotations

from tests.lua.conftest import CALL


def test_created_and_known(shard):
    """1 for a new id, 0 for one that lives; the first body stays."""
    assert shard.add("a", "b") == [1, 1]
    assert shard.add("b", "c", call_id=b"another0") == [0, 1]
    assert [key for key, _ in shard.take()] == ["t/q/a", "t/q/b"]


def test_the_same_call_sent_again_says_the_same(shard):
    """A call id that is known answers created again and changes nothing."""
    shard.add("a", "b")
    before = shard.dump()
    assert shard.add("a", "b", call_id=CALL) == [1, 1]
    after = shard.dump()
    assert before == after


def test_an_id_twice_in_one_call(shard):
    """The first counts, the second is told that it was there."""
    assert shard.add("a", "a", "b") == [1, 0, 1]
    assert shard.client.zcard(shard.root + ":stream:t/q/default/0/g=x") == 2


def test_due_times(shard):
    """'+ms' counts from now, 'ms' since the epoch; the past is now."""
    now = shard.clock.now_ms()
    shard.add("past", due=str(now - 5000))
    shard.add("later", due="+50")
    shard.add("at", due=str(now + 20))
    assert shard.find("past") == "waiting"
    assert shard.find("later") == shard.find("at") == "delayed"
    assert shard.step()[3] == 20
    shard.clock.advance(ms=50)
    assert [key for key, _ in shard.take()] == ["t/q/at"], "the limit is 2 and one runs"


def test_an_earlier_message_moves_a_delayed_stream(shard):
    """A stream whose head becomes due at once is ready at once."""
    shard.add("later", due="+5000")
    shard.add("now")
    assert [key for key, _ in shard.take()] == ["t/q/now"]


def test_one_millisecond_keeps_the_order(shard):
    """Five hundred messages of the same millisecond come as they were added."""
    names = [f"m{n}" for n in range(500, 0, -1)]
    shard.options()
    shard.add(*names)
    assert [key.rpartition("/")[2] for key, _ in shard.take(600)] == names


def test_a_waiting_process_is_woken_once(shard):
    """One channel a call; without ready work nobody is."""
    listener = shard.client.pubsub()
    listener.subscribe("ch1", "ch2")
    assert [listener.get_message(timeout=2)["type"] for _ in range(2)] == ["subscribe"] * 2
    shard.step(channel="ch1")
    shard.step(channel="ch2")
    shard.add("a", "b", "c")
    assert listener.get_message(timeout=2)["channel"] == b"ch1"
    assert listener.get_message(timeout=0.05) is None
    listener.close()
