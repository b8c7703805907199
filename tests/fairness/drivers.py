"""The same questions to the model and to the server."""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from fairqueue import ConcurrencyGroup, NewMessage
from fairqueue.keys import group_key
from fairqueue.model import Model, Stream


class Driver(Protocol):
    """What the fairness tests need; `org` in the constructor maps tenants to organisations."""

    def enqueue(self, tenant: str, n: int = 1, *, queue: str = "default", delay_ms: int = 0) -> None: ...
    def dispatch(self, n: int) -> list[tuple[str, str]]: ...
    def release(self, message: tuple[str, str]) -> bool: ...
    def set_limit(self, name: str, group_id: str, limit: int | None) -> None: ...
    def set_weight(self, tenant: str, weight: float) -> None: ...
    def advance(self, ms: int) -> None: ...
    def virtual_time(self) -> float: ...


class ModelDriver:
    """The reference."""

    def __init__(self, tenant_limit=None, org_limit=None, org=None):
        self.model, self.now, self.n = Model(), 0, 0
        self.tenant_limit, self.org_limit, self.org = tenant_limit, org_limit, org or {}
        self.running = {}

    def _groups(self, tenant):
        names = []
        if self.tenant_limit is not None:
            names.append((group_key("tenant", tenant), self.tenant_limit))
        if self.org_limit is not None:
            names.append((group_key("org", self.org.get(tenant, "none")), self.org_limit))
        for name, limit in names:
            if name not in self.model.limits and name not in self.model.used:
                self.model.limits[name] = limit
                self.model.used[name] = 0
        return tuple(name for name, _ in names)

    def enqueue(self, tenant, n=1, *, queue="default", delay_ms=0):
        stream = Stream(tenant, queue, self._groups(tenant))
        for _ in range(n):
            self.n += 1
            self.model.enqueue(stream, f"m{self.n}", self.now, self.now + delay_ms)

    def dispatch(self, n):
        out = []
        found = self.model.dispatch("default", n, self.now)
        while not found and self.model.time("default").tags:  # that call only parked what is blocked
            found = self.model.dispatch("default", n, self.now)
        for message in found:
            self.running[message.stream.tenant, message.id] = message
            out.append((message.stream.tenant, message.id))
        return out

    def release(self, message):
        return self.model.release(self.running[message], self.now)

    def set_limit(self, name, group_id, limit):
        key = group_key(name, group_id)
        self.model.used.setdefault(key, 0)
        self.model.set_limit(key, limit, self.now)

    def set_weight(self, tenant, weight):
        self.model.weights[tenant] = weight

    def advance(self, ms):
        self.now += ms

    def virtual_time(self):
        return self.model.time("default").v

    def check(self):
        under_way = Counter(g for m in self.running.values() if m.running for g in m.stream.groups)
        self.model.check(under_way)


class RedisDriver:
    """The library, through its public names."""

    def __init__(self, make_queue, tenant_limit=None, org_limit=None, org=None):
        org = org or {}
        groups = []
        if tenant_limit is not None:
            groups.append(ConcurrencyGroup(name="tenant", group_id=lambda m: m.tenant_id, default_limit=tenant_limit))
        if org_limit is not None:
            groups.append(
                ConcurrencyGroup(name="org", group_id=lambda m: org.get(m.tenant_id, "none"), default_limit=org_limit)
            )
        self.q = make_queue(concurrency_groups=groups, visibility_timeout=40_000)
        self.n = 0
        self.running = {}

    def enqueue(self, tenant, n=1, *, queue="default", delay_ms=0):
        start, self.n = self.n + 1, self.n + n
        delay = delay_ms / 1000 or None
        ids = (f"m{i}" for i in range(start, self.n + 1))
        self.q.enqueue_batch(
            [NewMessage(payload=None, message_id=i, delay=delay) for i in ids], tenant_id=tenant, queue_id=queue
        )

    def dispatch(self, n):
        out = []
        for delivery in self.q.receive(max_messages=n):
            self.running[delivery.tenant_id, delivery.id] = delivery
            out.append((delivery.tenant_id, delivery.id))
        return out

    def release(self, message):
        delivery = self.running[message]
        before = self.q.stats().get("completed", 0)
        delivery.complete()
        return self.q.stats()["completed"] == before + 1

    def release_all(self, messages):
        """Many at once, as a worker does."""
        deliveries = [self.running[m] for m in messages]
        from fairqueue.store.inflight import Settlement

        self.q.leases.settle(0, [Settlement(verb="complete", key=d.key, token=d.token) for d in deliveries])

    def set_limit(self, name, group_id, limit):
        self.q.groups.set_limit(name, group_id, limit)

    def set_weight(self, tenant, weight):
        self.q.tenants.set(tenant, weight=weight)

    def advance(self, ms):
        self.q.clock.advance(ms=ms)

    def virtual_time(self):
        key = self.q.keys.part(0, "clock:default")
        return float(self.q.client.hget(key, "v") or 0)

    def check(self):
        assert self.q.audit() == []


def release_all(driver, messages):
    """All of them, in order."""
    if isinstance(driver, RedisDriver):
        driver.release_all(messages)
    else:
        for message in messages:
            driver.release(message)
