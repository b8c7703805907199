"""The server in every condition: a caller gets an error that says what is wrong, loops carry on by themselves."""

from __future__ import annotations

import threading

import pytest
import redis

from batchqueue import BatchQueue
from fairqueue import (
    AccessDenied,
    FairQueue,
    FairQueueError,
    FairQueueOptions,
    OutcomeUnknown,
    StoreError,
    Unavailable,
    UnsupportedServer,
    Worker,
)
from fairqueue.events import LoopFailed
from fairqueue.scripts import commands
from tests.conditions import CONDITIONS, site
from tests.proxy import Proxy
from tests.scenarios.test_worker import Handled, settled


def until(true):
    for _ in range(2000):
        if true():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it did not happen")


def enqueue_soon(q, payload):
    """Again and again until it is accepted."""

    def accepted():
        try:
            return q.enqueue(payload, tenant_id="after", message_id="after")
        except FairQueueError:
            return False

    until(accepted)


@pytest.mark.parametrize("name", CONDITIONS)
def test_each_condition_is_named_and_outlived(tmp_path, name):
    """An enqueue meanwhile raises the named error or works; afterwards a worker goes on, and the books balance."""
    condition, error, text, loops_fail = CONDITIONS[name]
    with site(tmp_path, visibility_timeout=20, reclaim_interval=0.2, sweep_interval=None) as one:
        handled = Handled()
        worker = Worker(one.q, handled, threads=2)
        one.q.enqueue_batch(range(10), tenant_id="t")
        worker.start()
        handled.wait_for(10)
        settled(one.q, completed=10, in_flight=0)
        in_by_then = 1
        with condition(one):
            if error is None:
                for n in range(20):
                    one.q.enqueue(n, tenant_id="u")
                in_by_then += 20
            else:
                with pytest.raises(error, match=text) as caught:
                    one.q.enqueue("meanwhile", tenant_id="t", message_id="meanwhile")
                assert "'meanwhile'" in str(caught.value) or type(caught.value) is StoreError
            if loops_fail:
                until(lambda: one.hook.of(LoopFailed) and not all(worker.health().values()))
            before = len(one.hook.of(LoopFailed))
        enqueue_soon(one.q, "after")
        until(lambda: "after" in [d.payload for d in handled.deliveries])
        until(lambda: all(worker.health().values()))
        settled(one.q, in_flight=0)
        worker.stop()
        done = one.q.stats()["completed"]
        assert done - 10 - in_by_then in ({0, 1} if error is OutcomeUnknown else {0})
        assert done == one.q.stats()["enqueued"]
        assert loops_fail is not False or before == len(one.hook.of(LoopFailed)) == 0
        assert one.q.audit() == []


@pytest.mark.parametrize(
    ("product", "version", "refused"),
    [("valkey", b"7", True), ("valkey", b"8", False), ("redis", b"6", True), ("redis", b"7", False)],
)
def test_a_server_that_is_too_old_is_refused(own_server, product, version, refused):
    """The first call says which version it is and which is needed, and writes nothing."""
    with Proxy(own_server.url) as proxy, redis.Redis.from_url(own_server.url) as admin:
        if product == "redis":
            proxy.swap(b"valkey_version", b"other__version")
        mark = f"{product}_version:".encode()
        proxy.swap(mark + admin.info("server")[f"{product}_version"][:1].encode(), mark + version)
        q = FairQueue.connect(proxy.url)
        if refused:
            with pytest.raises(UnsupportedServer, match=f"(?i){product} {version.decode()}.*is needed"):
                q.enqueue(1, tenant_id="t")
            assert admin.dbsize() == 0
        else:
            assert q.enqueue(1, tenant_id="t").created
        q.close()


def test_a_server_that_evicts_is_refused_unless_allowed(own_server):
    """Any policy but noeviction, whether maxmemory is set or not; allow_eviction=True takes the risk."""
    with redis.Redis.from_url(own_server.url) as admin:
        admin.config_set("maxmemory-policy", "allkeys-lru")
        q = FairQueue.connect(own_server.url)
        with pytest.raises(UnsupportedServer, match=r"'allkeys-lru'.*allow_eviction"):
            q.enqueue(1, tenant_id="t")
        with pytest.raises(UnsupportedServer):
            q.start()
        with pytest.raises(UnsupportedServer):
            Worker(q, print).run()
        assert q.health() == {}
        bold = FairQueue.connect(own_server.url, allow_eviction=True)
        assert bold.enqueue(1, tenant_id="t").created
        for allow in (False, True):
            with BatchQueue.connect(own_server.url, allow_eviction=allow) as b:
                if allow:
                    b.initialize("b", tenant_id="t", item_count=1)
                else:
                    with pytest.raises(UnsupportedServer):
                        b.initialize("b", tenant_id="t", item_count=1)
        admin.config_set("maxmemory-policy", "noeviction")
        assert q.enqueue(2, tenant_id="t").created
        q.close()
        bold.close()


def test_a_replica_is_refused_with_its_master_named(own_server):
    """Whoever connects to a replica is told where its master is; after promotion the same queue works."""
    with redis.Redis.from_url(own_server.url) as admin:
        admin.replicaof("127.0.0.1", 1)
        q = FairQueue.connect(own_server.url)
        with pytest.raises(Unavailable, match=r"replica of 127\.0\.0\.1:1 .*master"):
            q.enqueue(1, tenant_id="t")
        admin.replicaof("NO", "ONE")
        assert q.enqueue(1, tenant_id="t").created
        q.close()


@pytest.fixture
def as_user(own_server):
    """A queue whose user has all the rights it needs and no other, but for those left out."""
    needed = {*commands(("fairqueue",)), "EVALSHA", "SCRIPT", "SUBSCRIBE", "PING"}
    admin = redis.Redis.from_url(own_server.url, protocol=2)
    made = []

    def make(*, without=(), keys="~{fairqueue:*", channels="&fairqueue:wake:*"):
        rights = ["+script|load" if right == "SCRIPT" else f"+{right.lower()}" for right in needed - {*without}]
        admin.execute_command("ACL", "SETUSER", "app", "reset", "on", ">pw", keys, "resetchannels", channels, *rights)
        made.append(redis.Redis.from_url(own_server.url, username="app", password="pw", protocol=2))
        return FairQueue(made[-1], FairQueueOptions())

    yield make, admin
    for client in made:
        client.close()
    admin.close()


def test_the_rights_that_are_checked_are_enough(as_user):
    """A user with just them goes the whole way; the server notes nothing denied but what it may keep to itself."""
    make, admin = as_user
    q = make()
    handled = Handled()
    worker = Worker(q, handled, threads=2)
    q.tenants.set("t", weight=2)
    q.enqueue_batch(range(5), tenant_id="t")
    worker.start()
    handled.wait_for(5)
    q.enqueue(5, tenant_id="t", delay=0.05)
    handled.wait_for(6)
    settled(q, completed=6)
    worker.stop()
    q.enqueue(6, tenant_id="t")
    q.receive(wait=1)[0].fail("x")
    q.dead_letters.redrive_all("t")
    q.queues.purge("t")
    assert q.audit() == []
    noted = {entry["object"] for entry in admin.acl_log()}
    assert noted <= {"info", "client|setinfo"}
    q.close()


@pytest.mark.parametrize("right", ["ZADD", "HSET", "EVALSHA", "SCRIPT", "SUBSCRIBE", "PUBLISH", "EXISTS"])
def test_a_missing_right_is_named_before_anything_is_written(as_user, right):
    """The first call names it, so no script fails half-way."""
    make, admin = as_user
    q = make(without=[right])
    with pytest.raises(AccessDenied, match=f"(?i){right}") as caught:
        q.enqueue(1, tenant_id="t")
    assert [named.upper().partition("|")[0] for named in caught.value.rights] == [right]
    assert admin.dbsize() == 0
    assert make().enqueue(1, tenant_id="t").created
    q.close()


def test_keys_and_channels_out_of_reach_are_named(as_user):
    """A key pattern too narrow, and no right to publish."""
    make, admin = as_user
    with pytest.raises(AccessDenied, match=r"'\{fairqueue:0\}'") as caught:
        make(keys="~other:*").enqueue(1, tenant_id="t")
    assert caught.value.rights == ("key",)
    with pytest.raises(AccessDenied, match="channels fairqueue:wake:") as caught:
        make(channels="&other:*").enqueue(1, tenant_id="t")
    assert caught.value.rights == ("PUBLISH", "SUBSCRIBE")
    assert admin.dbsize() == 0


def test_a_wrong_password_is_told_without_it(own_server):
    """Refused as AccessDenied; the password is not in the text."""
    client = redis.Redis.from_url(own_server.url, username="nobody", password="secret")
    q = FairQueue(client)
    with pytest.raises(AccessDenied) as caught:
        q.enqueue(1, tenant_id="t")
    assert "secret" not in str(caught.value)
    client.close()


@pytest.mark.parametrize(
    ("part", "call"),
    [
        ("", lambda q: q.enqueue(1, tenant_id="t")),
        ("messages", lambda q: q.enqueue(1, tenant_id="t")),
        ("stream:t/default/default/0", lambda q: q.receive()),
        ("act:default", lambda q: q.receive()),
        ("queue:default", lambda q: q.receive()),
        ("leases", lambda q: q.inflight.count()),
        ("weights", lambda q: q.tenants.set("t", weight=2)),
        ("streams", lambda q: q.queues.count()),
        ("clock:default", lambda q: q.dispatcher.run_once()),
    ],
)
def test_a_wrong_type_is_named_with_its_key(make_queue, redis_client, part, call):
    """Every call that meets it raises StoreError with the key; when the key is back, it works."""
    q = make_queue()
    q.enqueue(0, tenant_id="t")
    key = q.keys.part(0, part) if part else q.keys.root(0)
    kept = redis_client.exists(key) and redis_client.rename(key, key + ":kept")
    redis_client.set(key, "x")
    with pytest.raises(StoreError) as caught:
        call(q)
    assert key in str(caught.value)
    assert key in caught.value.keys
    assert caught.value.code == "WRONGTYPE"
    if kept:
        redis_client.rename(key + ":kept", key)
    else:
        redis_client.delete(key)
    call(q)
    assert q.audit() == []


def test_a_script_that_fails_is_named(make_queue, redis_client):
    """Any other error of a script: StoreError names it."""
    q = make_queue()
    q.enqueue(0, tenant_id="t", message_id="m")
    redis_client.hset(q.keys.part(0, "messages"), "t/default/m", b"\xff")
    with pytest.raises(StoreError, match="script 'step'") as caught:
        q.receive()
    assert caught.value.script == "step"


def test_too_many_clients_is_unavailable(own_server):
    """A server that takes no more connections accepted nothing, and says so."""
    admin = redis.Redis.from_url(own_server.url)
    admin.config_set("maxclients", 1)
    q = FairQueue.connect(own_server.url)
    with pytest.raises(Unavailable, match="nothing was sent"):
        q.enqueue(1, tenant_id="t")
    admin.config_set("maxclients", 100)
    assert q.enqueue(1, tenant_id="t").created
    q.close()
    admin.close()


def test_a_client_without_timeouts_gets_an_answer(own_server, monkeypatch):
    """Where the caller's client would wait for ever for a reply, a call does not."""
    monkeypatch.setattr("fairqueue.connection._ANSWER", 0.2)
    with Proxy(own_server.url) as proxy:
        client = redis.Redis.from_url(proxy.url, socket_timeout=None)
        q = FairQueue(client)
        q.enqueue(1, tenant_id="t")
        proxy.freeze()
        with pytest.raises(OutcomeUnknown):
            q.enqueue(2, tenant_id="t")
        proxy.thaw()
        q.enqueue(3, tenant_id="t")
        client.close()


def test_leases_of_one_shard_survive_trouble_on_another(make_queue, redis_client):
    """What was taken on a good shard is given to the caller, although the next shard is broken."""
    q = make_queue(shard_count=2)
    tenants = {q.tenants.shard(f"t{n}"): f"t{n}" for n in range(20)}
    for shard in (0, 1):
        q.enqueue(shard, tenant_id=tenants[shard])
    redis_client.rename(q.keys.part(1, "clock:default"), "{" + q.keys.namespace + ":kept")
    redis_client.set(q.keys.part(1, "clock:default"), "x")
    assert [d.payload for d in q.receive(max_messages=5)] == [0]
    redis_client.rename("{" + q.keys.namespace + ":kept", q.keys.part(1, "clock:default"))


def test_a_broken_shard_does_not_stop_the_others(make_queue, redis_client):
    """A worker goes on with good shards while one is broken, and with that one when it is mended."""
    q = make_queue(shard_count=3, clock=None)
    tenants = {q.tenants.shard(f"t{n}"): f"t{n}" for n in range(40)}
    for shard in range(3):
        q.enqueue(0, tenant_id=tenants[shard])
    key = q.keys.part(1, "clock:default")
    redis_client.rename(key, key + ":kept")
    redis_client.set(key, "x")
    handled = Handled()
    worker = Worker(q, handled, threads=2)
    worker.start()
    for n in range(20):
        q.enqueue(n, tenant_id=tenants[0])
        q.enqueue(n, tenant_id=tenants[2])
    handled.wait_for(42)
    assert not worker.health()["fairqueue.fetcher"]
    redis_client.rename(key + ":kept", key)
    handled.wait_for(43)
    until(lambda: all(worker.health().values()))
    worker.stop()
    assert q.audit() == []
