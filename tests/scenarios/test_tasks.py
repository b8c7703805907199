"""Tasks: functions by name, through real messages."""

from __future__ import annotations

import pytest

from fairqueue import Bury, ConfigurationError, FixedDelay, InvalidArgument, InvalidId, PayloadError, Retry
from fairqueue.tasks import Tasks
from fairqueue.tenancy import current_tenant, tenant_context
from fairqueue.testing import drain

pytestmark = pytest.mark.server


@pytest.fixture
def q(make_queue):
    return make_queue()


@pytest.fixture
def tasks(q):
    return Tasks(q)


def test_a_task_is_called_with_its_arguments(q, tasks):
    """Positional and keyword arguments arrive as they were given, for the tenant that was named."""
    called = []

    @tasks.task("invoice.send", queue_id="mail")
    def send_invoice(number, *, copies=1):
        called.append((number, copies, current_tenant()))

    receipt = send_invoice.enqueue(42, copies=2, tenant_id="acme")
    send_invoice.using(tenant_id="zeta", message_id="once").enqueue(number=7)
    assert not send_invoice.using(tenant_id="zeta", message_id="once").enqueue(7).created
    drain(q, tasks.handler)

    assert (receipt.tenant_id, receipt.queue_id) == ("acme", "mail")
    assert sorted(called) == [(7, 1, "zeta"), (42, 2, "acme")]
    assert send_invoice(1) is None
    assert called[-1] == (1, 1, None)
    assert q.stats()["completed"] == 2


def test_what_a_task_enqueues_is_its_tenants(q, tasks):
    """Inside a task, and inside tenant_context, tenant_id may be left out; outside both it is refused."""
    seen = []

    @tasks.task("second")
    def second():
        seen.append(current_tenant())

    @tasks.task("first")
    def first():
        second.enqueue()

    with tenant_context("acme"):
        first.enqueue()
        second.enqueue(tenant_id="zeta")
    drain(q, tasks.handler)

    assert sorted(seen) == ["acme", "zeta"]
    with pytest.raises(InvalidArgument, match="tenant_context"):
        first.enqueue()


@pytest.mark.parametrize(
    "payload",
    [
        {"task": "gone", "args": [], "kwargs": {}},
        {"task": "os.system", "args": ["true"], "kwargs": {}},
        {"task": "known", "args": [], "kwargs": {"other": 1}},
        {"task": ["known"], "args": [], "kwargs": {}},
        {"task": "known", "args": 1, "kwargs": {}},
        {"task": "known", "args": [], "kwargs": []},
        {"task": "known"},
        "known",
        None,
    ],
)
def test_what_is_no_call_of_a_task_is_a_dead_letter(q, tasks, payload):
    """An unknown name, arguments that do not fit and anything else are buried, and nothing is called or imported."""
    called = []
    tasks.task("known")(lambda number=0: called.append(number))
    q.enqueue(payload, tenant_id="t")
    drain(q, tasks.handler)

    [letter] = q.dead_letters.list("t")
    assert letter.reason.startswith(("no task is registered as", "task 'known':"))
    assert called == []


def test_a_dead_letter_runs_once_its_task_is_there(q):
    """After the deploy that brings the name, a redrive does the work."""
    q.enqueue({"task": "new", "args": [1], "kwargs": {}}, tenant_id="t", message_id="m")
    drain(q, Tasks(q).handler)
    later, called = Tasks(q), []
    later.task("new")(called.append)
    assert q.dead_letters.redrive("t", "default", "m")
    drain(q, later.handler)
    assert called == [1]


def test_a_task_has_a_retry_policy_of_its_own(q, clock, tasks):
    """Its failures follow it, others' the queue's; Retry and Bury still say what they say."""
    tried = []

    @tasks.task("stubborn", retry=FixedDelay(3, 10))
    def stubborn(how):
        tried.append(how)
        raise {"fails": ValueError("no"), "waits": Retry(), "buried": Bury("enough")}[how]

    @tasks.task("plain")
    def plain():
        tried.append("plain")
        raise ValueError("no")

    for how in ("fails", "waits", "buried"):
        stubborn.enqueue(how, tenant_id="t", message_id=how)
    plain.enqueue(tenant_id="t", message_id="plain")
    for _ in range(4):
        drain(q, tasks.handler)
        clock.advance(10)

    assert {how: tried.count(how) for how in tried} == {"fails": 3, "waits": 3, "buried": 1, "plain": 1}
    reasons = {letter.message_id: letter.reason for letter in q.dead_letters.list("t")}
    assert reasons == {"fails": "exhausted", "waits": "exhausted", "buried": "enough", "plain": "no retry policy"}
    assert q.dead_letters.get("t", "default", "fails").last_error == "ValueError: no"


def test_wrong_calls_are_refused_where_they_are_made(q, tasks):
    """Arguments that do not fit, or are no JSON, raise at enqueue; nothing is written."""

    @tasks.task("t")
    def task(number):
        pass

    with pytest.raises(TypeError, match="missing a required argument: 'number'"):
        task.enqueue(tenant_id="a")
    with pytest.raises(TypeError, match="color"):
        task.using(tenant_id="a", color=1)
    with pytest.raises(PayloadError):
        task.enqueue(object(), tenant_id="a")
    assert q.queues.count() == 0


def test_wrong_declarations_are_refused(tasks):
    """A name twice, a bad name, a parameter that enqueue has itself, a policy that is none."""
    tasks.task("one")(lambda: None)
    with pytest.raises(ConfigurationError, match="two tasks"):
        tasks.task("one")(lambda: None)
    with pytest.raises(InvalidId):
        tasks.task("")(lambda: None)
    with pytest.raises(ConfigurationError, match="'delay' is one of"):
        tasks.task("two")(lambda delay: None)
    with pytest.raises(ConfigurationError, match="next_delay"):
        tasks.task("three", retry=5)
    assert tasks.names == ["one"]


def test_a_queue_may_come_later(q):
    """A function that gives the queue is asked at enqueue, so tasks can be declared before it is there."""
    there, called = [], []
    tasks = Tasks(lambda: there[0])
    task = tasks.task("t")(called.append)
    there.append(q)
    task.enqueue(1, tenant_id="a")
    drain(q, tasks.handler)
    assert called == [1]
