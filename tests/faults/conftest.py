"""A server of its own for each run, which has every write on disk before it answers, and notes what took long."""

from __future__ import annotations

import pytest

from fairqueue.client import connect
from fairqueue.embedded import EmbeddedServer
from tests.scenarios.test_processes import Processes


class Case:
    """One server, and processes on it."""

    def __init__(self, server):
        self.url = server.url
        self.client = connect(server.url)
        self.client.config_set("appendfsync", "always")
        self.client.config_set("slowlog-log-slower-than", 100_000)  # microseconds
        self.client.config_set("slowlog-max-len", 1000)
        self.made = []

    def processes(self, **options):
        """Visibility timeout, heartbeat and sweep at the scale of the cases unless said otherwise."""
        scale = {"visibility_timeout": 2, "heartbeat_interval": 0.5, "reclaim_interval": 0.5}
        self.made.append(Processes(self.url, self.client, f"case{len(self.made)}", **{**scale, **options}))
        return self.made[-1]

    def now(self):
        """Milliseconds of the server."""
        seconds, micros = self.client.time()
        return seconds * 1000 + micros // 1000

    def slow(self):
        """Calls over 100 ms: milliseconds and command."""
        return [(one["duration"] // 1000, one["command"][:60]) for one in self.client.slowlog_get(1000)]

    def close(self):
        for one in self.made:
            one.close()
        self.client.close()


@pytest.fixture
def case(tmp_path):
    with EmbeddedServer(tmp_path / "data") as server:
        made = Case(server)
        yield made
        made.close()
