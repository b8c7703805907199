"""Fixtures: a server for the session, a namespace and a queue for each test."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Any

import pytest

from fairqueue import FairQueue, FairQueueOptions
from fairqueue.client import connect
from fairqueue.embedded import EmbeddedServer
from fairqueue.testing import ManualClock
from tests import servers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis

_numbers = itertools.count(1)


def pytest_report_header() -> str:
    """Say which server is used."""
    return f"server: {servers.chosen()}"


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    with servers.running() as url:
        yield url


@pytest.fixture(scope="session")
def redis_client(server_url: str) -> Iterator[redis.Redis]:
    client = connect(server_url)
    yield client
    client.close()


@pytest.fixture
def namespace(redis_client: redis.Redis) -> Iterator[str]:
    name = f"test-{os.getpid()}-{next(_numbers)}"
    yield name
    keys = list(redis_client.scan_iter(f"{{{name}:*", count=1000))
    for i in range(0, len(keys), 500):
        redis_client.unlink(*keys[i : i + 500])


@pytest.fixture
def own_server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer() as server:
        yield server


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def make_queue(server_url: str, namespace: str, clock: ManualClock) -> Iterator[Callable[..., FairQueue]]:
    """Queues on the test's namespace and clock; ``clock=None`` takes the server's."""
    clients: list[redis.Redis] = []
    made: list[FairQueue] = []

    def make(*, hooks: Any = (), clock: ManualClock | None = clock, **options: Any) -> FairQueue:
        client = connect(server_url)
        clients.append(client)
        made.append(FairQueue(client, FairQueueOptions(namespace=namespace, **options), hooks=hooks, clock=clock))
        return made[-1]

    yield make
    for queue in made:
        queue.close()
    for client in clients:
        client.close()
