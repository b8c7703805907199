"""The server under test: one that is named, a container, or the embedded one. Never a fake, never a skip."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fairqueue.embedded import EmbeddedServer

if TYPE_CHECKING:
    from collections.abc import Iterator

IMAGE = "redis:local"


def chosen() -> str:
    """Which server the tests run on, for a person."""
    if url := os.environ.get("FAIRQUEUE_TEST_URL"):
        return url
    if os.environ.get("FAIRQUEUE_TEST_SERVER") == "container":
        return f"a container of {IMAGE}"
    return "the embedded Valkey"


@contextmanager
def running() -> Iterator[str]:
    """The server's URL, for as long as the block lasts."""
    if url := os.environ.get("FAIRQUEUE_TEST_URL"):
        yield url
    elif os.environ.get("FAIRQUEUE_TEST_SERVER") == "container":
        from testcontainers.community.redis import RedisContainer

        with RedisContainer(IMAGE) as container:
            yield f"redis://{container.get_container_host_ip()}:{container.get_exposed_port(6379)}"
    else:
        with EmbeddedServer() as server:
            yield server.url
