"""Loops survive."""

from __future__ import annotations

import pytest
import structlog

from fairqueue.events import Events
from fairqueue.loops import Failures


@pytest.fixture
def broken_log():
    """A log whose reader has gone away."""

    def broken(*_):
        raise BrokenPipeError

    structlog.configure(processors=[broken])
    yield
    structlog.reset_defaults()


@pytest.mark.usefixtures("broken_log")
def test_a_broken_log_ends_no_loop():
    """What cannot be logged is still backed off from."""
    assert 0 < Failures("x", Events(())).note(ValueError("boom")) <= 0.05
