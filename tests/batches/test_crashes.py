"""Processes die between any two steps: each batch still ends, with each index counted once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time

import pytest

from batchqueue import BatchQueue

SOON = 30.0  # seconds: only a broken run waits so long
ITEMS = 20
PRODUCER = ["initialize:before", "initialize:after", "add_items:before:2", "add_items:after:1"]
WORKER = [
    "step:before:2", "step:after:1", "step:after:2", "step:before:4", "step:after:4",
    "handler:before:1", "handler:after:1", "handler:before:7", "handler:after:7",
    f"handler:before:{ITEMS + 1}", f"handler:after:{ITEMS + 1}", "reclaim:before:1", "due_batches:after:1",
]  # fmt: skip


class Processes:
    def __init__(self, url, redis_client, namespace, **settings):
        self.url, self.notes, self.namespace = url, redis_client, namespace
        self.settings = json.dumps({"items": ITEMS, **settings})
        self.running = []
        self.b = BatchQueue.connect(url, namespace=namespace)

    def start(self, role, failpoint=""):
        command = [sys.executable, "-m", "tests.batch_process", self.url, self.namespace, role, self.settings]
        env = {**os.environ, "FAIRQUEUE_FAILPOINT": failpoint}
        process = subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL)
        self.running.append(process)
        return process

    def until(self, true, what):
        end = time.monotonic() + SOON
        while not true():
            assert time.monotonic() < end, (what, self.b.queue.stats(), self.lines("ends"), self.lines("items")[-5:])
            threading.Event().wait(0.02)

    def keep_working(self, workers=None):
        """A supervisor: workers that die are started again, until the batch has ended."""
        batch = self.b.get("t", "b1")
        workers = workers or [self.start("work")]

        def ended():
            for i, worker in enumerate(workers):
                if worker.poll() is not None:
                    workers[i] = self.start("work")
            return batch.progress().status in {"completed", "completed_with_failures", "callback_failed"}

        self.until(ended, "the batch did not end")
        for worker in workers:
            worker.terminate()
            assert worker.wait(SOON) in {0, -9, 9, -15}  # -15: it had not begun
        return batch

    def lines(self, kind):
        return [line.decode().split() for line in self.notes.lrange(f"{self.namespace}:{kind}", 0, -1)]

    def close(self):
        for process in self.running:
            if process.poll() is None:
                process.kill()
            process.wait()
        assert self.b.audit() == []
        self.b.close()
        self.notes.delete(*(f"{self.namespace}:{k}" for k in ("items", "ends", "up")))


@pytest.fixture
def processes(server_url, redis_client, namespace):
    made = []

    def make(**settings):
        made.append(Processes(server_url, redis_client, namespace, **settings))
        return made[-1]

    yield make
    for run in made:
        run.close()


@pytest.mark.parametrize("failpoint", PRODUCER)
def test_a_producer_killed_at_any_step_is_just_run_again(processes, failpoint):
    """The second run completes the first: every index in once (C27)."""
    run = processes(items=1200)
    assert run.start("produce", failpoint).wait(SOON) == -9
    assert run.start("produce").wait(SOON) == 0
    batch = run.b.get("t", "b1")

    assert (batch.progress().enqueued, batch.progress().status) == (1200, "sealed")
    assert run.b.queue.queues.length("t", "b1") == 1200
    batch.cancel()


@pytest.mark.parametrize("failpoint", WORKER)
def test_a_worker_killed_at_any_step_leaves_the_batch_whole(processes, failpoint):
    """Items run again at most; each counts once, the batch ends once, all its callbacks tell the same (C29 c)."""
    run = processes()
    assert run.start("produce").wait(SOON) == 0
    dying = run.start("work", failpoint)
    if not failpoint.startswith("reclaim"):
        assert dying.wait(SOON) == -9
    batch = run.keep_working()
    progress = batch.progress()

    assert (progress.status, progress.succeeded, progress.failed) == ("completed", ITEMS, 0)
    assert dict(batch.results()) == {i: i for i in range(ITEMS)}
    assert {int(index) for index, *_ in run.lines("items")} == set(range(ITEMS))
    assert len({tuple(end) for end in run.lines("ends")}) == 1
    assert 1 <= len(run.lines("ends")) <= 2


def test_a_callback_killed_inside_is_called_again_with_the_same_id(processes):
    """By another worker, with the same counts (C29 c)."""
    run = processes(dies_in_callback=True)
    assert run.start("produce").wait(SOON) == 0
    batch = run.keep_working()

    ends = run.lines("ends")
    assert len(ends) == 2
    assert ends[0] == ends[1] == [ends[0][0], "completed", str(ITEMS), "0"]
    assert batch.progress().succeeded == ITEMS


def test_items_that_fail_or_kill_for_good_do_not_hold_the_batch(processes):
    """5 always fail, 2 always kill their worker, 3 fail once: 13 succeed, 7 fail, each started three times (C30)."""
    run = processes(always=[0, 1, 2, 3, 4], once=[5, 6, 7], killers=[8, 9], threads=1)
    assert run.start("produce").wait(SOON) == 0
    batch = run.keep_working()
    progress = batch.progress()

    assert (progress.status, progress.succeeded, progress.failed) == ("completed_with_failures", 13, 7)
    failures = {failure.index: failure for failure in batch.failures()}
    assert sorted(failures) == [0, 1, 2, 3, 4, 8, 9]
    assert {failures[i].code for i in (8, 9)} == {"LeaseExpired"}
    assert {failures[i].attempts for i in (8, 9)} == {3}
    starts = [int(index) for index, *_ in run.lines("items")]
    assert [starts.count(i) for i in (8, 9)] == [3, 3]
    assert [end[1:] for end in run.lines("ends")] == [["completed_with_failures", "13", "7"]]


def test_two_workers_share_a_batch_and_end_it_once(processes):
    """Each item once, one callback; SIGTERM drains with exit code 0 (batch-11)."""
    run = processes(items=300, visibility=30, sleep=0.002)
    workers = [run.start("work"), run.start("work")]
    run.until(lambda: int(run.notes.get(f"{run.namespace}:up") or 0) == 2, "the workers did not start")
    assert run.start("produce").wait(SOON) == 0
    run.keep_working(workers)

    starts = [int(index) for index, *_ in run.lines("items")]
    assert sorted(starts) == list(range(300))
    assert len({pid for *_, pid in run.lines("items")}) == 2
    assert len(run.lines("ends")) == 1
