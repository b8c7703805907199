"""A shard on which scripts are called one by one, and its whole state."""

from __future__ import annotations

import msgspec
import pytest

from fairqueue.connection import Connection
from fairqueue.keys import Keys, group_key, message_key, stream_name
from fairqueue.message import pack_body
from fairqueue.scripts import Scripts

CALL = b"callid00"


class Shard:
    """Scripts with short names, replies decoded."""

    def __init__(self, client, namespace, clock, limits):
        self.client, self.clock = client, clock
        self.root = Keys(namespace).root(0)
        options = {"limits": limits, "dead_letters": True, "dedupe": 0}
        self.connection = Connection(client)
        self.scripts = Scripts(self.connection, clock.now_ms, msgspec.msgpack.encode(options))
        self.calls = 0

    def options(self, **changed):
        """The same shard for a caller with other options."""
        options = {"limits": {}, "dead_letters": True, "dedupe": 0, **changed}
        self.scripts = Scripts(self.connection, self.clock.now_ms, msgspec.msgpack.encode(options))

    def call(self, name, rest=(), **args):
        return self.scripts.call(name, self.root, rest, **args)

    def add(self, *ids, tenant="t", queue="q", groups=("g",), due="", call_id=CALL, pool="default", said=()):
        stream = stream_name(tenant, queue, pool, 0, [group_key(g, "x") for g in groups])
        rest = [1, stream]
        for name in ids:
            rest += [1, name, due, pack_body(call_id, b'"%s"' % name.encode(), None)]
        limits = msgspec.msgpack.encode(list(said)) if said else b""
        return self.call("enqueue", rest, call_id=call_id, limits=limits)

    def step(self, want=10, *, settle=(), again="0", call_id=None, channel="", pool="default", timeout=1000):
        self.calls += 1
        rest = [part for verb, key, token in settle for part in (verb, key, token, 0, "why", "Kind", "text")]
        settled, leases, more, due, _ = self.call(
            "step", rest, again=again, call_id=call_id or f"c{self.calls}", pool=pool, want=want, timeout=timeout,
            worker="w", channel=channel, look=5000, floor="",
        )  # fmt: skip
        taken = [(leases[i].decode(), leases[i + 1].decode()) for i in range(0, len(leases), 4)]
        return settled, taken, more, due

    def take(self, want=10, **options):
        return self.step(want, **options)[1]

    def settle(self, verb, lease, *, again="0", delay=0):
        return self.call("settle", [verb, *lease, delay, "why", "Kind", "text"], again=again)[0]

    def find(self, name, tenant="t", queue="q"):
        reply = self.call("find", key=message_key(tenant, queue, name))
        return reply[0].decode() if reply else None

    def used(self, group="g"):
        return int(self.client.hget(self.root + ":groups", group_key(group, "x")) or 0)

    def audit(self):
        return [part.decode() for part in self.call("audit")]

    def dump(self):
        """Every key with its content."""
        found = {}
        for key in sorted(self.client.scan_iter(self.root.replace("{", "[{]") + "*")):
            found[key] = self.client.dump(key) if self.client.type(key) == b"none" else self._content(key)
        return found

    def _content(self, key):
        kind = self.client.type(key)
        if kind == b"hash":
            return self.client.hgetall(key)
        if kind == b"zset":
            return self.client.zrange(key, 0, -1, withscores=True)
        if kind == b"list":
            return self.client.lrange(key, 0, -1)
        return self.client.get(key)


@pytest.fixture
def shard(request, redis_client, namespace, clock):
    """A fresh shard; whatever a test did, nothing in it contradicts itself, unless it was broken on purpose."""
    made = Shard(redis_client, namespace, clock, {"g": 2, "h": 1})
    yield made
    if not request.node.get_closest_marker("broken"):
        assert made.audit() == []


def pytest_collection_modifyitems(items):
    """The scripts run on every kind of server."""
    for item in items:
        if item.path.parent.name == "lua":
            item.add_marker(pytest.mark.server)
