"""What a queue opened itself is closed with it, also when it does not come to be."""

from __future__ import annotations

import pytest

from batchqueue import BatchQueue
from fairqueue import ConfigurationError, FairQueue
from fairqueue.embedded import EmbeddedServer
from fairqueue.scheduler import RoundRobin


@pytest.fixture
def stopped(monkeypatch):
    """Servers that were started, and whether each was stopped."""
    seen = {}
    start, stop = EmbeddedServer.start, EmbeddedServer.stop

    def started(server):
        seen[server] = False
        return start(server)

    def ended(server):
        seen[server] = True
        stop(server)

    monkeypatch.setattr(EmbeddedServer, "start", started)
    monkeypatch.setattr(EmbeddedServer, "stop", ended)
    return seen


@pytest.mark.parametrize("kind", [FairQueue, BatchQueue])
def test_closing_a_queue_ends_its_server(kind, stopped):
    """And closing it twice is once."""
    queue = kind.embedded()
    assert queue.url.startswith("unix://")
    assert list(stopped.values()) == [False]
    queue.close()
    queue.close()
    assert list(stopped.values()) == [True]


@pytest.mark.parametrize("kind", [FairQueue, BatchQueue])
def test_a_queue_that_is_refused_leaves_no_server_behind(kind, stopped):
    """Refused in the constructor, after the server was started."""
    with pytest.raises(ConfigurationError, match="RoundRobin"):
        kind.embedded(scheduler=RoundRobin())
    assert list(stopped.values()) == [True]
