"""The door to the server: one effect a call, and errors that say what happened."""

from __future__ import annotations

import os
import threading

import pytest
import redis

from fairqueue import (
    ConcurrencyGroup,
    FairQueue,
    FairQueueOptions,
    OutcomeUnknown,
    ServerFull,
    Unavailable,
)
from fairqueue.client import connect
from fairqueue.connection import Connection
from tests.proxy import Proxy

GROUPS = [ConcurrencyGroup(name="t", group_id=lambda m: m.tenant_id, default_limit=5)]


@pytest.fixture
def proxied(own_server):
    """A queue behind a proxy, and the proxy."""
    with Proxy(own_server.url) as proxy:
        q = FairQueue.connect(proxy.url, concurrency_groups=GROUPS)
        q.enqueue(0, tenant_id="warm")
        q.receive()[0].complete()
        yield q, proxy
        q.close()


def test_a_lost_reply_to_enqueue_is_unknown_and_repeatable(proxied):
    """The error names the message; enqueueing it again with that id makes one message."""
    q, proxy = proxied
    proxy.cut_reply()
    with pytest.raises(OutcomeUnknown) as caught:
        q.enqueue("x", tenant_id="t")
    assert caught.value.message_id in str(caught.value)
    again = q.enqueue("x", tenant_id="t", message_id=caught.value.message_id)
    assert not again.created
    assert [d.payload for d in q.receive(max_messages=5)] == ["x"]


def test_a_lost_request_to_enqueue_is_unknown_too(proxied):
    """It cannot be told apart; repeating it makes one message."""
    q, proxy = proxied
    proxy.cut_request()
    with pytest.raises(OutcomeUnknown) as caught:
        q.enqueue("x", tenant_id="t")
    assert q.enqueue("x", tenant_id="t", message_id=caught.value.message_id).created


def test_bulk_tells_what_is_in(proxied):
    """The chunks before the lost one are in the error's receipts."""
    q, proxy = proxied
    sent = 0

    def items():
        nonlocal sent
        for n in range(1200):
            if n == 1100:
                proxy.cut_reply()
            sent += 1
            yield n

    with pytest.raises(OutcomeUnknown) as caught:
        q.enqueue_batch(items(), tenant_id="t")
    assert len(caught.value.receipts) == 1000
    assert len(caught.value.message_ids) == 200
    assert q.queues.length("t") == 1200


def test_a_lost_reply_to_a_take_gives_the_same_leases(proxied):
    """The call is sent again and answered with what it took: nothing twice, nothing forgotten."""
    q, proxy = proxied
    q.enqueue_batch(range(8), tenant_id="t")
    proxy.cut_reply(b"EVALSHA")
    taken = q.receive(max_messages=3)
    assert [d.payload for d in taken] == [0, 1, 2]
    assert q.groups.usage("t", "t") == (3, 5)
    assert q.inflight.count() == 3
    for delivery in taken:
        delivery.complete()
    assert q.audit() == []


@pytest.mark.parametrize("verb", ["complete", "fail", "release", "heartbeat"])
@pytest.mark.parametrize("cut", ["cut_reply", "cut_request"])
def test_a_lost_settlement_has_one_effect(proxied, verb, cut):
    """Sent again, it succeeds; the slot is freed once."""
    q, proxy = proxied
    q.enqueue_batch(range(3), tenant_id="t")
    first, second = q.receive(max_messages=2)
    getattr(proxy, cut)()
    getattr(first, verb)()
    assert q.groups.usage("t", "t") == (2 if verb == "heartbeat" else 1, 5)
    second.complete()
    assert q.audit() == []
    assert q.stats().get("dead", 0) == (1 if verb == "fail" else 0)


def test_a_server_that_is_not_there(tmp_path):
    """Nothing was sent: Unavailable, with the ids."""
    q = FairQueue(connect(f"unix://{tmp_path}/none.sock"))
    with pytest.raises(Unavailable):
        q.enqueue(1, tenant_id="acme", message_id="m")


def test_a_full_server_takes_nothing_and_lets_go(own_server):
    """Out of memory: enqueue is refused whole; taking, completing, failing and purging still work (C16)."""
    q = FairQueue.connect(own_server.url, concurrency_groups=GROUPS)
    q.enqueue_batch([{"pad": "x" * 500}] * 100, tenant_id="t")
    admin = redis.Redis.from_url(own_server.url)
    before = q.stats()["enqueued"]
    admin.config_set("maxmemory", 1_000_000)
    with pytest.raises(ServerFull, match="'m'"):
        q.enqueue({"pad": "x"}, tenant_id="t", message_id="m")
    with pytest.raises(ServerFull):
        q.enqueue_batch([1] * 10, tenant_id="t")
    assert q.stats()["enqueued"] == before
    for delivery in q.receive(max_messages=3):
        delivery.complete()
    [bad, back, freed] = q.receive(max_messages=3)
    bad.fail("x")
    back.release()
    freed.heartbeat()
    freed.complete()
    assert q.queues.peek("t")
    assert q.dead_letters.purge("t") == 1
    assert q.audit() == []
    admin.config_set("maxmemory", 0)
    q.enqueue(1, tenant_id="t")
    admin.close()
    q.close()


def test_a_demoted_server_refuses_in_our_words(own_server):
    """READONLY is Unavailable; after promotion everything goes on."""
    q = FairQueue.connect(own_server.url)
    q.enqueue(1, tenant_id="t")
    admin = redis.Redis.from_url(own_server.url)
    admin.replicaof("127.0.0.1", 1)
    with pytest.raises(Unavailable, match="READONLY"):
        q.enqueue(2, tenant_id="t")
    admin.replicaof("NO", "ONE")
    q.enqueue(3, tenant_id="t")
    assert [d.payload for d in q.receive(max_messages=5)] == [1, 3]
    admin.close()
    q.close()


def test_forgotten_scripts_are_loaded_again(own_server):
    """SCRIPT FLUSH is not noticed (C15)."""
    q = FairQueue.connect(own_server.url)
    admin = redis.Redis.from_url(own_server.url)
    for n in range(3):
        admin.script_flush()
        q.enqueue(n, tenant_id="t")
        admin.script_flush()
        q.receive()[0].complete()
    assert q.stats()["completed"] == 3
    admin.close()
    q.close()


@pytest.mark.parametrize(
    "settings", [{"decode_responses": True}, {"protocol": 3}, {"protocol": 3, "decode_responses": True}]
)
def test_the_callers_client_may_be_any(server_url, namespace, settings):
    """Replies are read as bytes whatever the client decodes; both protocols work."""
    client = redis.Redis.from_url(server_url, **settings)
    q = FairQueue(client, FairQueueOptions(namespace=namespace, concurrency_groups=GROUPS))
    q.enqueue({"a": "ü"}, tenant_id="t")
    [delivery] = q.receive(wait=1)
    assert delivery.payload == {"a": "ü"}
    delivery.fail("x")
    assert q.dead_letters.list("t")[0].payload == {"a": "ü"}
    assert q.queues.peek("t") == []
    assert q.stats()["dead"] == 1
    q.close()
    client.close()


def test_a_small_pool_is_waited_for(server_url, namespace):
    """Forty threads on five connections: nobody hears of the pool (C17, reduced)."""
    client = redis.Redis.from_url(server_url, max_connections=5, socket_timeout=1)
    q = FairQueue(client, FairQueueOptions(namespace=namespace))
    errors = []

    def produce(k):
        try:
            for n in range(10):
                q.enqueue(n, tenant_id=f"t{k}")
        except Exception as error:  # noqa: BLE001 - told below
            errors.append(error)

    threads = [threading.Thread(target=produce, args=(k,)) for k in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert q.queues.count() == 40
    q.close()
    client.close()


def test_a_child_process_uses_sockets_of_its_own(server_url, namespace):
    """After a fork the child enqueues and takes without disturbing its parent (C14, reduced)."""
    client = redis.Redis.from_url(server_url)
    q = FairQueue(client, FairQueueOptions(namespace=namespace))
    q.enqueue("parent", tenant_id="p")
    parents_id = client.client_id()
    children = []
    for n in range(3):
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                ids = {q.enqueue(i, tenant_id=f"c{n}").message_id for i in range(20)}
                own = client.client_id() != parents_id
                status = 0 if own and len(ids) == 20 and q.receive(wait=0.5) else 2
            finally:
                os._exit(status)
        children.append(pid)
    for n in range(20):
        q.enqueue(n, tenant_id="p")
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0, 0, 0]
    assert q.stats()["enqueued"] == 81
    q.close()
    client.close()


def test_an_exception_between_request_and_reply_leaves_no_stale_reply(server_url, namespace, monkeypatch):
    """The connection is closed, so the next call reads its own reply."""
    client = redis.Redis.from_url(server_url)
    connection = Connection(client)
    assert connection.call("k", lambda _: ("PING",), repeatable=True) == b"PONG"
    real = client.connection_pool.connection_class.read_response

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(client.connection_pool.connection_class, "read_response", interrupted)
    with pytest.raises(KeyboardInterrupt):
        connection.call("k", lambda _: ("ECHO", "stale"), repeatable=True)
    monkeypatch.setattr(client.connection_pool.connection_class, "read_response", real)
    assert connection.call("k", lambda _: ("ECHO", "fresh"), repeatable=True) == b"fresh"
    client.close()


def test_passwords_are_not_shown():
    """A URL that cannot be used is told without its password."""
    from fairqueue import ConfigurationError

    with pytest.raises(ConfigurationError) as caught:
        connect("http://user:secret@host/0")
    assert "secret" not in str(caught.value)


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_child_is_not_stuck_on_a_lock_of_its_parent(server_url, namespace):
    """A thread of the parent was inside the pool at the moment of the fork: the child's calls work all the same."""
    client = redis.Redis.from_url(server_url)
    q = FairQueue(client, FairQueueOptions(namespace=namespace))
    held, over = threading.Event(), threading.Event()

    def hold():
        with client.connection_pool._lock:
            held.set()
            over.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    pid = os.fork()
    if pid == 0:
        threading.Timer(10, os._exit, (3,)).start()
        os._exit(0 if q.enqueue(1, tenant_id="t").created else 2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    over.set()
    holder.join()
    client.close()
