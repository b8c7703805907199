"""Random work through the public names: after every step the books balance, at the end nothing is left."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest

from fairqueue import ConcurrencyGroup, FixedDelay, LeaseLost, NewMessage
from fairqueue.events import OnDiscard

pytestmark = pytest.mark.server
TENANTS, QUEUES, POOLS = ("a", "b:", "c/ü"), ("q", "r"), ("cpu", "gpu")
LIMITS = {"tenant": 3, "org": 4}


class Run:
    """One run: what was accepted, what is held, what is over."""

    def __init__(self, make_queue, seed):
        self.rng = random.Random(seed)
        self.q = make_queue(
            worker_queue=lambda m: m.metadata["pool"],
            concurrency_groups=[
                ConcurrencyGroup(name="tenant", group_id=lambda m: m.tenant_id, default_limit=LIMITS["tenant"]),
                ConcurrencyGroup(name="org", group_id=lambda m: (m.metadata["org"],), default_limit=LIMITS["org"]),
                ConcurrencyGroup(
                    name="plan", group_id=lambda m: (m.tenant_id, m.queue_id), default_limit=2, limit=self.plan
                ),
            ],
            retry=FixedDelay(3, 0.5),
            visibility_timeout=5,
            max_deliveries=5,
            dead_letter_limit=2,
            hooks=[OnDiscard(self.discarded)],
        )
        self.limits = {}
        self.n = 0
        self.held, self.stale = [], []
        self.draining = False
        self.paused = set()
        self.accepted = set()

    def step(self):
        verb = self.rng.choices(
            ["enqueue", "receive", "complete", "fail", "release", "late", "tick", "reclaim", "ahead", "clear", "limit",
             "weight", "redrive", "purge", "cancel", "flush", "pause"],
            [24, 22, 14, 5, 3, 4, 6, 4, 4, 1, 4, 2, 3, 1, 3, 1, 3],
        )[0]  # fmt: skip
        getattr(self, verb)()
        assert self.q.audit() == [], verb
        self.check_live_groups()
        for name, default in LIMITS.items():
            for group_id in TENANTS if name == "tenant" else ("x", "y,="):
                _used, limit = self.q.groups.usage(name, group_id)
                assert limit == self.limits.get((name, group_id), default)

    def plan(self, group_id):
        """A callable that changes its mind, and fails now and then."""
        assert group_id[0] in TENANTS
        assert group_id[1] in QUEUES
        return None if self.draining else self.rng.choice([0, 1, 3, 5, 8, None, None, "nonsense"])

    def check_live_groups(self):
        """The streams of each group whose callable is asked are counted exactly."""
        root = self.q.keys.root(0)
        there = Counter(
            group
            for name in self.q.client.zrange(root + ":streams", 0, -1)
            for group in name.split(b"/")[4:]
            if group.startswith(b"plan=")
        )
        fields = self.q.client.hgetall(root + ":groups")
        assert {k[:-1]: int(v) for k, v in fields.items() if k.endswith(b"+")} == there

    def enqueue(self):
        tenant, queue = self.rng.choice(TENANTS), self.rng.choice(QUEUES)
        metadata = {"pool": self.rng.choice(POOLS), "org": self.rng.choice(["x", "y,="])}
        ids = []
        for _ in range(self.rng.randint(1, 4)):
            self.n += 1
            ids.append(
                f"m{self.n}"
                if self.rng.random() < 0.9 or not self.accepted
                else self.rng.choice(sorted(self.accepted))[2]
            )
        delay = self.rng.choice([None, None, None, 0.3, 2])
        messages = [NewMessage(payload=i, message_id=i, delay=delay, metadata=metadata) for i in ids]
        for receipt in self.q.enqueue_batch(messages, tenant_id=tenant, queue_id=queue):
            key = (tenant, queue, receipt.message_id)
            assert receipt.created == (key not in self.accepted)
            self.accepted.add(key)

    def receive(self, n=None, pool=None):
        pool = pool or self.rng.choice(POOLS)
        before = {
            (name, g): self.q.groups.usage(name, g)[0]
            for name in LIMITS
            for g in (TENANTS if name == "tenant" else ("x", "y,="))
        }
        plans = {ids: self.q.groups.usage("plan", ids)[0] for ids in itertools.product(TENANTS, QUEUES)}
        taken = self.q.receive(pool, max_messages=n or self.rng.randint(1, 6))
        for ids, had in plans.items():
            used, limit = self.q.groups.usage("plan", ids)
            assert used <= max(10**6 if limit is None else limit, had)
        for delivery in taken:
            assert (delivery.tenant_id, delivery.queue_id, delivery.id) in self.accepted
            assert delivery.metadata["pool"] == pool
            assert not self.paused & {(delivery.tenant_id, None), (delivery.tenant_id, delivery.queue_id)}
        for (name, group_id), had in before.items():
            used, limit = self.q.groups.usage(name, group_id)
            assert used <= max(limit if limit is not None else 10**6, had)
        self.held += taken
        return taken

    def _settle(self, verb, **arguments):
        if self.held:
            delivery = self.held.pop(self.rng.randrange(len(self.held)))
            getattr(delivery, verb)(**arguments)
            self.stale.append(delivery)
            return delivery
        return None

    def _gone(self, delivery):
        self.accepted.discard((delivery.tenant_id, delivery.queue_id, delivery.id))

    def complete(self):
        if delivery := self._settle("complete"):
            self._gone(delivery)

    def fail(self):
        self._settle("fail", error="x", dead=self.rng.random() < 0.5)

    def release(self):
        self._settle("release", delay=self.rng.choice([0, 0.4]))

    def late(self):
        """Verbs with a token that never held, on a message that was settled or lost."""
        if self.stale:
            old = self.rng.choice(self.stale)
            other = self.q.delivery(old.tenant_id, old.queue_id, old.id, old.token + "x")
            with pytest.raises(LeaseLost):
                getattr(other, self.rng.choice(["complete", "fail", "release", "heartbeat"]))()

    def tick(self):
        self.q.clock.advance(self.rng.choice([0.001, 0.3, 1, 3]))

    def reclaim(self):
        self.q.reclaimer.run_once()
        kept = []
        for delivery in self.held:
            try:
                delivery.heartbeat()
                kept.append(delivery)
            except LeaseLost:
                self.stale.append(delivery)
        self.held = kept

    def ahead(self):
        self.q.dispatcher.run_once()

    def clear(self):
        self.q.worker_queues.clear(self.rng.choice(POOLS))

    def limit(self):
        name = self.rng.choice(sorted(LIMITS))
        group_id = self.rng.choice(TENANTS if name == "tenant" else ("x", "y,="))
        limit = self.rng.choice([0, 1, 2, 6, None])
        self.limits[name, group_id] = limit
        self.q.groups.set_limit(name, group_id, limit)

    def weight(self):
        self.q.tenants.set(self.rng.choice(TENANTS), weight=self.rng.choice([None, 0.5, 2, 10]))

    def pause(self):
        what = self.rng.choice(TENANTS), self.rng.choice([None, *QUEUES])
        paused = self.rng.random() < 0.15
        self.set_pause(what, paused=paused)

    def discarded(self, event):
        """A letter that made room for another one."""
        assert (event.why, event.raw) == ("limit", f'"{event.message_id}"'.encode())
        self.accepted.remove((event.tenant_id, event.queue_id, event.message_id))

    def set_pause(self, what, *, paused):
        tenant, queue = what
        (self.paused.add if paused else self.paused.discard)(what)
        names, view = ((tenant,), self.q.tenants) if queue is None else ((tenant, queue), self.q.queues)
        (view.pause if paused else view.resume)(*names)
        assert self.q.tenants.settings(tenant).paused == ((tenant, None) in self.paused)

    def redrive(self):
        self.q.dead_letters.redrive_all(self.rng.choice(TENANTS))

    def purge(self):
        tenant = self.rng.choice(TENANTS)
        for letter in self.q.dead_letters.list(tenant, limit=500):
            self.accepted.discard((tenant, letter.queue_id, letter.message_id))
        self.q.dead_letters.purge(tenant)

    def cancel(self):
        if self.accepted:
            key = self.rng.choice(sorted(self.accepted))
            info = self.q.messages.get(*key)
            cancelled = self.q.messages.cancel(*key)
            assert cancelled == (info.state in {"waiting", "delayed", "dispatched"})
            if cancelled:
                self.accepted.discard(key)

    def flush(self):
        self.q.client.script_flush()

    def drain(self):
        for name, group_id in self.limits:
            self.q.groups.clear_limit(name, group_id)
        for tenant in TENANTS:
            self.q.tenants.set(tenant, weight=None)
        for what in sorted(self.paused, key=str):
            self.set_pause(what, paused=False)
        self.draining = True
        for _ in range(200):
            self.q.clock.advance(10)
            self.q.reclaimer.run_once()
            self.q.dispatcher.run_once()
            for pool in POOLS:
                for delivery in self.q.receive(pool, max_messages=50):
                    delivery.complete()
                    self._gone(delivery)
            for tenant in TENANTS:
                for letter in self.q.dead_letters.list(tenant, limit=500):
                    self.accepted.discard((tenant, letter.queue_id, letter.message_id))
                self.q.dead_letters.purge(tenant)
            if not self.accepted:
                return
        raise AssertionError(f"not drained: {sorted(self.accepted)[:5]}")


@pytest.mark.parametrize("seed", range(12))
def test_random_work_is_always_consistent(make_queue, redis_client, namespace, seed):
    """Every message is in one place all along; drained, the shard's root hash is all that is left."""
    run = Run(make_queue, seed)
    for _ in range(250):
        run.step()
    run.drain()
    assert run.q.audit() == []
    assert [key for key in redis_client.scan_iter(f"{{{namespace}:*") if b"}:" in key] == []
