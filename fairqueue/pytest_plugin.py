"""Fixtures for the tests of an application: `fairqueue_server` and `fairqueue`. Loaded by pytest by itself."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairqueue.fair_queue import FairQueue


@pytest.fixture(scope="session")
def fairqueue_server() -> Iterator[str]:
    """URL of a server: that of FAIRQUEUE_TEST_URL, else an embedded Valkey for the session."""
    from fairqueue.embedded import EmbeddedServer  # noqa: PLC0415 - not at the start of every pytest run

    if url := os.environ.get("FAIRQUEUE_TEST_URL"):
        yield url
    else:
        with EmbeddedServer() as server:
            yield server.url


@pytest.fixture
def fairqueue(fairqueue_server: str) -> Iterator[FairQueue]:
    """A FairQueue on a fresh namespace, cleared afterwards."""
    from fairqueue.client import connect  # noqa: PLC0415 - see above
    from fairqueue.fair_queue import FairQueue  # noqa: PLC0415 - see above

    namespace = f"pytest-{secrets.token_hex(6)}"
    queue = FairQueue.connect(fairqueue_server, namespace=namespace)
    yield queue
    queue.close()
    client = connect(fairqueue_server)
    keys = list(client.scan_iter(f"{{{namespace}:*", count=1000))
    for i in range(0, len(keys), 500):
        client.unlink(*keys[i : i + 500])
    client.close()
