"""The scheduler as an executable specification: pure Python, no server, no clock.

What the Lua does is defined here and compared with it step for step. Self-clocked fair queueing by virtual
finish tags (S. Golestani, INFOCOM 1994), an express lane for tenants at or under their share, and streams
parked on full groups outside the scan.
"""

from __future__ import annotations

from bisect import insort

import attrs


@attrs.frozen(order=False)
class Stream:
    """Messages that share everything that decides their place."""

    tenant: str
    queue: str
    groups: tuple[str, ...] = ()
    pool: str = "default"

    @property
    def name(self) -> str:
        """As in keys; ties are broken by it."""
        return "/".join([self.tenant, self.queue, self.pool, "0", *self.groups])


@attrs.define
class Message:
    """One message: where it waits, and whether it runs."""

    id: str
    stream: Stream
    due: int
    seq: int
    running: bool = False

    def place(self) -> tuple[int, int]:
        """Its order in its stream."""
        return self.due, self.seq


class VirtualTime:
    """Tags and lane of one worker queue."""

    def __init__(self) -> None:
        """Start at virtual time 0."""
        self.v = 0.0
        self.turn = 0
        self.tags: dict[str, float] = {}  # eligible tenant -> finish tag of its next message
        self.lane: list[str] = []
        self.last: dict[str, float] = {}  # finish tag of a tenant outside, while it lies ahead

    def join(self, tenant: str, quantum: float) -> None:
        """A tenant has something ready."""
        if tenant in self.tags:
            return
        last = self.last.pop(tenant, None)
        if last is None or last <= self.v:
            self.lane.append(tenant)
        self.tags[tenant] = max(self.v if last is None else last, self.v) + quantum

    def leave(self, tenant: str, quantum: float) -> None:
        """A tenant has nothing ready any more."""
        if tenant not in self.tags:
            return
        last = self.tags.pop(tenant) - quantum
        if tenant in self.lane:
            self.lane.remove(tenant)
        if last > self.v:
            self.last[tenant] = last

    def pick(self) -> tuple[str, bool] | None:
        """Whose turn it is, and whether through the lane: every second pick at most."""
        if self.turn == 0 and self.lane:
            return self.lane[0], True
        if not self.tags:
            return None
        return min(self.tags, key=lambda tenant: (self.tags[tenant], tenant)), False

    def charge(self, tenant: str, quantum: float, *, via_lane: bool) -> None:
        """A message of the tenant was dispatched."""
        self.turn = 1 if via_lane else 0
        if not via_lane:
            self.v = max(self.v, self.tags[tenant])
        if tenant in self.lane:
            self.lane.remove(tenant)
        self.tags[tenant] += quantum

    def refund(self, tenant: str, quantum: float) -> None:
        """A message came back unstarted."""
        if tenant in self.tags:
            self.tags[tenant] = max(self.tags[tenant] - quantum, self.v)
        elif tenant in self.last:
            last = self.last.pop(tenant) - quantum
            if last > self.v:
                self.last[tenant] = last

    def rank(self, tenant: str, quantum: float) -> float:
        """Of a tenant that waits for a group."""
        return max(self.tags[tenant] - quantum, self.v)

    def trim(self) -> None:
        """A tag at or behind the clock says nothing."""
        self.last = {tenant: tag for tenant, tag in self.last.items() if tag > self.v}


class Model:
    """Streams, groups, waiters and delays around `VirtualTime`."""

    def __init__(self) -> None:
        """Start empty."""
        self.times: dict[str, VirtualTime] = {}
        self.weights: dict[str, float] = {}
        self.limits: dict[str, int] = {}
        self.used: dict[str, int] = {}
        self.waiting: dict[Stream, list[Message]] = {}  # in their order
        self.ready: dict[tuple[str, str], set[Stream]] = {}  # (pool, tenant)
        self.delayed: dict[str, set[Stream]] = {}
        self.blocked: dict[Stream, str] = {}
        self.waiters: dict[tuple[str, str], dict[str, float]] = {}  # (pool, group) -> tenant -> tag
        self.pools: dict[str, list[str]] = {}  # group -> pools that wait, in the order they came
        self.living: dict[str, int] = {}
        self._seq = 0

    def quantum(self, tenant: str) -> float:
        """What one message adds to a tag."""
        return 1 / self.weights.get(tenant, 1.0)

    def time(self, pool: str) -> VirtualTime:
        """The clock of a worker queue."""
        return self.times.setdefault(pool, VirtualTime())

    def full(self, group: str) -> bool:
        """Whether no slot is free."""
        return group in self.limits and self.used.get(group, 0) >= self.limits[group]

    # -- verbs

    def enqueue(self, stream: Stream, message_id: str, now: int, due: int | None = None) -> Message:
        """Add a message."""
        self._seq += 1
        message = Message(message_id, stream, now if due is None else max(now, due), self._seq)
        self.living[stream.pool] = self.living.get(stream.pool, 0) + 1
        self._add(message, now)
        return message

    def dispatch(self, pool: str, n: int, now: int) -> list[Message]:
        """The next messages in fair order; blocked streams are parked."""
        time, out = self.time(pool), []
        for stream in sorted(self.delayed.get(pool, ()), key=lambda s: (self.waiting[s][0].due, s.name))[: 2 * n + 16]:
            if self.waiting[stream][0].due <= now:
                self._place(stream, now)
        budget = 4 * n + 64
        while n > 0 and budget > 0 and (picked := time.pick()):
            budget -= 1
            tenant, via_lane = picked
            stream = min(self.ready[pool, tenant], key=lambda s: (self.waiting[s][0].due, s.name))
            blocker = next((group for group in stream.groups if self.full(group)), None)
            if blocker is not None:
                self._park(stream, blocker)
                for group in stream.groups:
                    if group != blocker:
                        self._wake(group, now)
            else:
                message = self.waiting[stream].pop(0)
                message.running = True
                for group in stream.groups:
                    self.used[group] = self.used.get(group, 0) + 1
                time.charge(tenant, self.quantum(tenant), via_lane=via_lane)
                self._place(stream, now)
                out.append(message)
                n -= 1
            if not self.ready.get((pool, tenant)):
                time.leave(tenant, self.quantum(tenant))
        time.trim()
        return out

    def release(self, message: Message, now: int) -> bool:
        """A message is done; its slots go to who waits. False when it did not run."""
        if not message.running:
            return False
        message.running = False
        pool = message.stream.pool
        self.living[pool] -= 1
        self._free(message.stream, now)
        if self.living[pool] == 0:
            self.times[pool] = VirtualTime()
        return True

    def give_back(self, message: Message, now: int) -> None:
        """A message goes back to its place unstarted."""
        message.running = False
        tenant = message.stream.tenant
        self.time(message.stream.pool).refund(tenant, self.quantum(tenant))
        self._add(message, now)
        self._free(message.stream, now)

    def set_limit(self, group: str, limit: int | None, now: int) -> None:
        """A group's limit from now on; more room wakes as many as it holds."""
        if limit is None:
            self.limits.pop(group, None)
        else:
            self.limits[group] = limit
        room = 10_000 if limit is None else limit - self.used.get(group, 0)
        for _ in range(room):
            if group not in self.pools:
                break
            self._wake(group, now)

    # -- places

    def _add(self, message: Message, now: int) -> None:
        stream = message.stream
        line = self.waiting.setdefault(stream, [])
        head = line[0] if line else None
        insort(line, message, key=Message.place)
        if line[0] is not head and stream not in self.blocked:
            self._place(stream, now)

    def _place(self, stream: Stream, now: int) -> bool:
        ready = self.ready.setdefault((stream.pool, stream.tenant), set())
        delayed = self.delayed.setdefault(stream.pool, set())
        ready.discard(stream)
        delayed.discard(stream)
        line = self.waiting[stream]
        if not line:
            del self.waiting[stream]
            return False
        if line[0].due > now:
            delayed.add(stream)
            return False
        ready.add(stream)
        self.time(stream.pool).join(stream.tenant, self.quantum(stream.tenant))
        return True

    def _park(self, stream: Stream, group: str) -> None:
        self.ready[stream.pool, stream.tenant].discard(stream)
        self.blocked[stream] = group
        tags = self.waiters.setdefault((stream.pool, group), {})
        tags[stream.tenant] = self.time(stream.pool).rank(stream.tenant, self.quantum(stream.tenant))
        if stream.pool not in self.pools.setdefault(group, []):
            self.pools[group].append(stream.pool)

    def _parked(self, pool: str, group: str, tenant: str) -> list[Stream]:
        return [s for s, g in self.blocked.items() if (s.pool, g, s.tenant) == (pool, group, tenant)]

    def _wake(self, group: str, now: int) -> None:
        if group not in self.pools or self.full(group):
            return
        for pool in list(self.pools[group]):
            tags = self.waiters[pool, group]
            while tags:
                tenant = min(tags, key=lambda t: (tags[t], t))
                stream = min(self._parked(pool, group, tenant), key=lambda s: (self.waiting[s][0].due, s.name))
                del self.blocked[stream]
                if self._parked(pool, group, tenant):
                    tags[tenant] += self.quantum(tenant)
                else:
                    del tags[tenant]
                if not tags:
                    self.pools[group].remove(pool)
                    if not self.pools[group]:
                        del self.pools[group]
                if self._place(stream, now):
                    break

    def _free(self, stream: Stream, now: int) -> None:
        for group in stream.groups:
            self.used[group] -= 1
        for group in stream.groups:
            self._wake(group, now)

    # -- what must hold

    def check(self, running: dict[str, int]) -> None:
        """Raise AssertionError where an invariant is broken. *running*: messages under way by group."""
        for pool, time in self.times.items():
            ready = {tenant for (p, tenant), streams in self.ready.items() if p == pool and streams}
            _require(set(time.tags) == ready, "a tenant is in act just when it has a ready stream")
            for tenant, tag in time.tags.items():
                slack = 2 * self.quantum(tenant) + 1e-6
                _require(time.v - 1e-6 <= tag <= time.v + slack, f"L1: {tenant} at {tag}, clock {time.v}")
        for stream in self.waiting:
            places = [
                stream in self.ready.get((stream.pool, stream.tenant), ()),
                stream in self.delayed.get(stream.pool, ()),
                stream in self.blocked,
            ]
            _require(sum(places) == 1, f"{stream.name} stands in {sum(places)} places")
        for group, n in self.used.items():
            _require(n == running.get(group, 0), f"{group}: {n} counted, {running.get(group, 0)} under way")


def _require(holds: object, what: str) -> None:
    if not holds:
        raise AssertionError(what)
