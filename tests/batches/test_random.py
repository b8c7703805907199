"""Random work on batches against a model of sets and dicts: the figures agree after every step."""

from __future__ import annotations

import random

import pytest

from batchqueue import BatchClosed, BatchConflict, IndexOutOfRange, UnknownBatch
from batchqueue.keys import CALLBACKS, is_callback
from fairqueue import FixedDelay, LeaseLost

pytestmark = pytest.mark.server


class Model:
    """What a batch is, written down as plainly as can be."""

    def __init__(self, count, deadline):
        self.count, self.deadline = count, deadline
        self.items, self.ok, self.failed, self.cancelled = set(), set(), set(), set()
        self.state, self.round = "filling", 0
        self.over, self.ended = False, ""  # the callback is done with; the state it was called in

    def check(self):
        if self.state == "filling" and self.count is not None and len(self.items) == self.count:
            self.state = "sealed"
        if self.state == "sealed" and self.ok | self.failed == self.items:
            self.state = "completing"

    @property
    def waiting(self):
        return self.items - self.ok - self.failed - self.cancelled


class Run:
    def __init__(self, make_batches, seed):
        self.rng = random.Random(seed)
        self.b = make_batches(
            retry=FixedDelay(2, 0.5), callback_retry=FixedDelay(3, 0.5), visibility_timeout=5, retention=1000,
            default_concurrency=4, max_deliveries=None,
        )  # fmt: skip
        self.models, self.handles, self.held = {}, {}, []
        self.called = []

    def step(self):
        verb = self.rng.choices(
            ["initialize", "add", "stream", "seal", "cancel", "receive", "settle", "tick", "redrive", "recall"],
            [6, 10, 6, 4, 1, 25, 30, 8, 4, 2],
        )[0]
        getattr(self, verb)()
        for name, model in self.models.items():
            progress = self.handles[name].progress()
            assert progress.status == model.state, (verb, name)
            assert (progress.enqueued, progress.succeeded, progress.failed, progress.cancelled) == (
                len(model.items), len(model.ok), len(model.failed), len(model.cancelled),
            ), (verb, name)  # fmt: skip
            assert progress.item_count == model.count
        assert self.b.audit() == [], verb

    def pick(self):
        return self.rng.choice(sorted(self.models)) if self.models else None

    def initialize(self):
        name = (self.rng.choice("tu"), f"b{self.rng.randrange(6)}")
        count = self.rng.choice([None, None, 0, 1, 5, 9])
        fill = self.rng.choice([None, None, 20])
        if name in self.models:
            return
        self.handles[name] = self.b.initialize(name[1], tenant_id=name[0], item_count=count, fill_timeout=fill)
        self.models[name] = Model(count, None if fill is None else self.b.queue.clock.now_ms() + 20_000)
        self.models[name].check()

    def _expected(self, model, index):
        if index in model.items:
            return False
        if model.state != "filling":
            return BatchClosed
        return IndexOutOfRange if model.count is not None and index >= model.count else True

    def add(self):
        if (name := self.pick()) is None:
            return
        model, index = self.models[name], self.rng.randrange(12)
        expected = self._expected(model, index)
        if isinstance(expected, bool):
            assert self.handles[name].add(index, index) is expected
            model.items.add(index)
            model.check()
        else:
            with pytest.raises(expected):
                self.handles[name].add(index, index)

    def stream(self):
        if (name := self.pick()) is None:
            return
        model, start = self.models[name], self.rng.randrange(8)
        wanted = list(range(start, start + self.rng.randint(1, 5)))
        expected = [self._expected(model, index) for index in wanted]
        result = self.handles[name].add_many(wanted, start=start)
        model.items |= {index for index, new in zip(wanted, expected, strict=True) if new is True}
        model.check()
        assert result.enqueued == expected.count(True)
        assert result.deduplicated == expected.count(False)
        assert [type(refusal.error) for refusal in result.refused] == [e for e in expected if not isinstance(e, bool)]

    def seal(self):
        if (name := self.pick()) is None:
            return
        model = self.models[name]
        ended = model.ended if model.state == "callback_failed" else model.state
        try:
            self.handles[name].seal()
        except BatchConflict:
            assert model.state == "filling"
            assert model.count is not None
        except BatchClosed:
            assert ended in {"cancelled", "incomplete"}
        else:
            assert ended not in {"cancelled", "incomplete"}
            if model.count is None:
                model.count = len(model.items)
            model.check()

    def cancel(self):
        if (name := self.pick()) is None:
            return
        model = self.models[name]
        held = {int(d.message_id) for d in self._leases() if (d.tenant_id, d.queue_id) == name}
        open_ = model.state in {"filling", "sealed", "cancelled"} or (model.state == "incomplete" and model.waiting)
        assert self.handles[name].cancel() is bool(open_)
        if open_:
            model.state = "cancelled"
            model.cancelled |= model.waiting - held

    def receive(self):
        self.held += self.b.queue.receive(max_messages=self.rng.randint(1, 5))

    def settle(self):
        if not self.held:
            return
        delivery = self.held.pop(self.rng.randrange(len(self.held)))
        good = self.rng.random() < 0.6
        if is_callback(delivery.key):
            self._called(delivery, good)
            return
        model, index = self.models[delivery.tenant_id, delivery.queue_id], int(delivery.id)
        final = self.rng.random() < 0.4 or delivery.attempt >= 2
        try:
            delivery.complete() if good else delivery.fail("x", dead=final)
        except LeaseLost:
            return
        if good:
            model.ok.add(index)
        elif final:
            model.failed.add(index)
        model.check()

    def _called(self, delivery, good):
        name = (delivery.tenant_id, delivery.id)
        model = self.models[name]
        final = delivery.attempt >= 3
        try:
            delivery.complete() if good else delivery.fail("x")
        except LeaseLost:
            return
        self.called.append((*name, model.round, good))
        if not good and not final:
            return
        model.over = True
        if not good:
            model.ended, model.state = model.state, "callback_failed"
        elif model.state == "completing":
            model.state = "completed_with_failures" if model.failed else "completed"

    def tick(self):
        clock = self.b.queue.clock
        clock.advance(self.rng.choice([0.3, 1, 6]))
        self._expire(clock.now_ms())
        self.b.queue.reclaimer.run_once()
        self.b.sweep.run_once()
        clock.advance(1.1)  # when the sweep looks again at what it found half way
        self.b.sweep.run_once()
        for name, model in self.models.items():
            if model.state == "filling" and model.deadline is not None and model.deadline <= clock.now_ms():
                model.state = "incomplete"
            if model.state == "cancelled":  # what ran and came back is taken out
                running = {d.message_id for d in self._leases() if (d.tenant_id, d.queue_id) == name}
                model.cancelled |= {i for i in model.waiting if str(i) not in running}

    def _leases(self):
        return list(self.b.queue.inflight.list(limit=500))

    def _expire(self, now):
        """Leases past their deadline: the second lost attempt of an item fails it, the third ends a callback."""
        for lease in self._leases():
            if lease.deadline.timestamp() * 1000 > now:
                continue
            if lease.queue_id == CALLBACKS:
                if lease.attempt >= 3:
                    model = self.models[lease.tenant_id, lease.message_id]
                    model.over = True
                    model.ended, model.state = model.state, "callback_failed"
            elif lease.attempt >= 2:
                model = self.models[lease.tenant_id, lease.queue_id]
                model.failed.add(int(lease.message_id))
                model.check()

    def redrive(self):
        if (name := self.pick()) is None:
            return
        model = self.models[name]
        try:
            n = self.handles[name].redrive_failures()
        except BatchClosed:
            return
        assert n == len(model.failed)
        if n:
            if model.over:
                was = model.ended if model.state == "callback_failed" else model.state
                model.state = "incomplete" if was == "incomplete" else "sealed"
                model.over, model.round = False, model.round + 1
            model.failed = set()

    def recall(self):
        if (name := self.pick()) is None:
            return
        model = self.models[name]
        assert self.handles[name].retry_callback() is (model.state == "callback_failed")
        if model.state == "callback_failed":
            model.state, model.over = model.ended, False

    def drain(self):
        for delivery in self.held:
            try:
                delivery.release()
            except LeaseLost:
                continue
        self.held = []
        for name, model in self.models.items():
            if model.state == "filling":
                self.handles[name].cancel()
        for _ in range(60):
            self.b.queue.clock.advance(6)
            self.b.queue.reclaimer.run_once()
            self.b.sweep.run_once()
            while taken := self.b.queue.receive(max_messages=50):
                for delivery in taken:
                    delivery.complete()
        self.b.queue.clock.advance(1001)
        self.b.sweep.run_once()
        for handle in self.handles.values():
            with pytest.raises(UnknownBatch):
                handle.progress()


@pytest.mark.parametrize("seed", range(12))
def test_random_batches_agree_with_the_model(make_batches, redis_client, namespace, seed):
    """State and figures after every step; who was told of its end is not told again; nothing is left."""
    run = Run(make_batches, seed)
    for _ in range(150):
        run.step()
    good = [call[:3] for call in run.called if call[3]]
    assert len(good) == len(set(good))
    run.drain()
    assert [key for key in redis_client.scan_iter(f"{{{namespace}:*") if b"}:" in key] == []
