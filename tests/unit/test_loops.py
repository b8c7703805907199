"""Loops survive, loudly but not too loudly."""

from __future__ import annotations

import threading

import pytest
from structlog.testing import capture_logs

from fairqueue import loops
from fairqueue.events import Events, LoopFailed
from fairqueue.loops import Failures, Loop, each
from fairqueue.testing import Collected


class Textless(Exception):
    def __str__(self):
        raise ValueError


@pytest.fixture
def now(monkeypatch):
    """A monotonic clock that the test moves."""
    at = [1000.0]
    monkeypatch.setattr(loops.time, "monotonic", lambda: at[0])
    return at


def test_failures_are_logged_at_most_once_a_second_and_less_and_less(now):
    """At once, then after 1, 2, 4 ... 30 s while it lasts; a success starts anew, but never two in a second."""
    hook = Collected()
    failures = Failures("a loop", Events((hook,)))
    logged = []
    with capture_logs() as logs:
        for tenth in range(1000):
            now[0] = 1000 + tenth / 10
            failures.note(OSError("x"))
            if len(logs) > len(logged):
                logged.append(tenth / 10)
        assert logged == [0, 1, 3, 7, 15, 31, 61, 91]
        failures.ok()
        failures.note(OSError("y"))
        assert len(logs) == 9
        failures.ok()
        failures.note(OSError("z"))
        assert len(logs) == 9
    assert [event.loop for event in hook.of(LoopFailed)] == ["a loop"] * 9


def test_pauses_grow_to_a_second_with_jitter():
    """And end with the first success."""
    failures = Failures("a loop", Events())
    with capture_logs():
        pauses = [failures.note(OSError()) for _ in range(200)]
    assert max(pauses[:2]) <= 0.1
    assert all(0.5 <= pause <= loops.MAX_PAUSE for pause in pauses[10:])
    assert len(set(pauses)) > 100
    assert failures.failing
    failures.ok()
    assert not failures.failing
    with capture_logs():
        assert failures.note(Textless()) <= 0.05


@pytest.mark.parametrize("error", [OSError, SystemExit, KeyboardInterrupt, Textless])
def test_a_loop_outlives_whatever_its_step_raises(error):
    """It says so, is not healthy meanwhile, and is again after the next step that works."""
    broken, failed, worked = threading.Event(), threading.Event(), threading.Event()
    broken.set()

    def step():
        if broken.is_set():
            failed.set()
            raise error
        worked.set()
        return 0

    loop = Loop("a loop", step, lambda: 0.001, Events())
    with capture_logs():
        loop.start()
        assert failed.wait(5)
        while loop.healthy:
            threading.Event().wait(0.001)
        assert loop.alive
        broken.clear()
        assert worked.wait(5)
        while not loop.healthy:
            threading.Event().wait(0.001)
        loop.stop()
        loop.join(5)
    assert not loop.alive


def test_a_shard_in_trouble_does_not_stop_the_others():
    """All are stepped, then the first trouble is told."""
    stepped = []

    def step(shard):
        stepped.append(shard)
        if shard in {0, 2}:
            raise ValueError(shard)
        return 10

    with pytest.raises(ValueError, match="0"):
        each(range(4), step)
    assert stepped == [0, 1, 2, 3]
    assert each([1, 3], step) == 20
