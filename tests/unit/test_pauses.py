"""Pauses: a worker asks seldom, and is not stopped by a server that does not answer."""

from __future__ import annotations

from fairqueue.errors import OutcomeUnknown
from fairqueue.pauses import REMEMBERED, Pauses


class Server:
    def __init__(self, answer):
        self.answer, self.asked = answer, 0

    def paused(self, *_):
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_an_answer_is_good_for_a_while():
    """Many starts of one queue are one question."""
    server = Server(answer=True)
    pauses = Pauses(server)
    assert all(pauses.hold(0, "t", "q") for _ in range(20))
    assert server.asked < 20


def test_no_answer_holds_nothing_back():
    """The lease is held, so the handler may run."""
    assert not Pauses(Server(OutcomeUnknown())).hold(0, "t", "q")


def test_what_is_remembered_is_bounded():
    """However many queues a worker meets."""
    pauses = Pauses(Server(answer=False))
    for n in range(3 * REMEMBERED):
        pauses.hold(0, "t", str(n))
    assert len(pauses._known) <= REMEMBERED
