"""The public names as a user types them: checked by mypy --strict in `make type`, never run.

What must be refused carries an ignore, and an ignore that is not needed is an error.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

import attrs
import redis
from flask import Flask

from fairqueue import (
    Bury,
    ConcurrencyGroup,
    CustomRetry,
    DeadLetter,
    Delivery,
    ExponentialBackoff,
    Fair,
    FairQueue,
    FairQueueError,
    FairQueueOptions,
    FixedDelay,
    ImmediateRetry,
    LeaseLost,
    LinearBackoff,
    MessageInfo,
    NewMessage,
    NoRetry,
    OutcomeUnknown,
    Receipt,
    Retry,
    Worker,
)
from fairqueue.contrib.flask import FlaskFairQueue
from fairqueue.events import Event, Hook, Reclaimed
from fairqueue.message import InflightInfo, QueueInfo
from fairqueue.ratelimit import Decision, RateLimiter
from fairqueue.retry import RetryPolicy
from fairqueue.scheduler import Scheduler, Turn
from fairqueue.sweeper import Finding
from fairqueue.tasks import Task, TaskCall, Tasks
from fairqueue.tenancy import current_tenant, tenant_context
from fairqueue.testing import FlakyRedis, ManualClock, drain
from fairqueue.views.groups import FullGroup
from fairqueue.views.page import Page


@attrs.frozen
class Invoice:
    """A payload type."""

    number: int


def organisation(message: NewMessage) -> tuple[str, ...]:
    return message.tenant_id, str((message.metadata or {}).get("plan"))


def limit_of(group_id: str | tuple[str, ...]) -> int | None:
    return 5 if group_id == "acme" else None


def options() -> FairQueueOptions:
    made = FairQueueOptions(
        namespace="mail",
        shard_count=4,
        shard_by=lambda tenant_id: tenant_id.partition("/")[0],
        scheduler=Fair(),
        concurrency_groups=(
            ConcurrencyGroup(name="tenant", group_id=lambda m: m.tenant_id, default_limit=5, limit=limit_of),
            ConcurrencyGroup(name="plan", group_id=organisation, default_limit=None),
        ),
        worker_queue=lambda message: "gpu" if message.priority else "default",
        retry=ExponentialBackoff(max_attempts=5, min_delay=0.5, max_delay=60, factor=2, jitter=True),
        dead_letters=True,
        visibility_timeout=timedelta(seconds=30),
        heartbeat_interval=None,
        max_deliveries=20,
        payload_type=Invoice,
        validate_on_enqueue=True,
    )
    FairQueueOptions("mail")  # type: ignore[call-arg]  # keyword-only
    FairQueueOptions(visibility_timeout="30")  # type: ignore[arg-type]
    made.namespace = "other"  # type: ignore[misc]  # frozen
    return made


def policies() -> list[RetryPolicy]:
    def wait(attempt: int, error: BaseException | None) -> float | None:
        return None if error is None else attempt * 2.0

    found: list[RetryPolicy] = [
        ExponentialBackoff(),
        FixedDelay(3, 1.5),
        LinearBackoff(3, 1, max_delay=10),
        ImmediateRetry(2),
        NoRetry(),
        CustomRetry(3, delay=wait),
    ]
    assert_type(found[0].next_delay(1, ValueError("x")), float | None)
    assert_type(ExponentialBackoff().max_attempts, int)
    return found


def making(client: redis.Redis, hook: Hook) -> FairQueue:
    with FairQueue(client, options(), hooks=[hook]) as q:
        assert_type(q, FairQueue)
    assert_type(FairQueue.connect("redis://localhost", hooks=[hook], namespace="mail"), FairQueue)
    return FairQueue.embedded("/data", clock=ManualClock())


def producing(q: FairQueue) -> None:
    receipt = q.enqueue(
        Invoice(number=1),
        tenant_id="acme",
        queue_id="emails",
        message_id="invoice-1",
        delay=timedelta(minutes=1),
        metadata={"plan": "free"},
    )
    assert_type(receipt, Receipt)
    assert_type(receipt.created, bool)
    assert_type(receipt.message_id, str)
    q.enqueue({"any": "json"}, tenant_id="acme", not_before=datetime.now(UTC))
    many = q.enqueue_batch([1, NewMessage(payload=2, message_id="two", delay=3)], tenant_id="acme")
    assert_type(many, list[Receipt])
    assert_type(many[0].error, Exception | None)
    q.enqueue(1)  # type: ignore[call-arg]  # whose?
    q.enqueue(1, tenant_id=7)  # type: ignore[arg-type]
    q.enqueue(1, tenant_id="acme", delay="soon")  # type: ignore[arg-type]


def consuming(q: FairQueue) -> None:
    for delivery in q.receive("default", max_messages=10, wait=1.5):
        assert_type(delivery, Delivery)
        payload: Invoice = delivery.payload
        assert_type(delivery.attempt, int)
        assert_type(delivery.metadata, dict[str, Any])
        assert_type(delivery.enqueued_at, datetime)
        assert_type(delivery.lost.is_set(), bool)
        try:
            delivery.heartbeat()
            if payload.number < 0:
                delivery.fail(ValueError("negative"), retry_in=5)
            elif payload.number == 0:
                delivery.fail("nothing", dead=True)
            elif payload.number == 1:
                delivery.release(delay=timedelta(seconds=1))
            else:
                delivery.complete()
        except LeaseLost as error:
            assert_type(error.message_id, str | None)
        q.delivery(delivery.tenant_id, delivery.queue_id, delivery.id, delivery.token).complete()


def working(q: FairQueue) -> None:
    def handle(delivery: Delivery) -> None:
        if delivery.cancelled.is_set():
            raise Bury("cancelled")
        if delivery.attempt == 1:
            raise Retry(after=0.5)

    worker = Worker(q, handle, worker_queue=["default", "gpu"], threads=4, prefetch=2, grace=10, dispatch=False)
    worker.start()
    assert_type(worker.run_once(), int)
    assert_type(worker.health(), dict[str, bool])
    worker.stop(timeout=5)
    worker.run()
    Worker(q, lambda: None)  # type: ignore[misc, arg-type]  # a handler is given a delivery
    drain(q, handle)


def looking(q: FairQueue) -> None:
    assert_type(q.queues.length("acme", "emails"), int)
    assert_type(q.queues.count(), int)
    page = q.queues.list("acme", limit=10)
    assert_type(page, Page[QueueInfo])
    assert_type(page.cursor, str | None)
    assert_type([info.oldest for info in page], list[datetime])
    assert_type(q.queues.peek("acme"), list[MessageInfo])
    assert_type(q.messages.list("acme", "emails", cursor=page.cursor), Page[MessageInfo])
    assert_type(q.messages.get("acme", "emails", "invoice-1"), MessageInfo | None)
    assert_type(q.messages.cancel("acme", "emails", "invoice-1"), bool)
    assert_type(q.inflight.list(limit=5), Page[InflightInfo])
    assert_type(q.worker_queues.peek("default"), list[tuple[str, str, str]])
    assert_type(q.tenants.list(), Page[str])
    assert_type(q.tenants.settings("acme").weight, float)
    assert_type(q.groups.usage("tenant", "acme"), tuple[int, int | None])
    assert_type(q.groups.usage("plan", ("acme", "free")), tuple[int, int | None])
    assert_type(q.groups.capacity("tenant", "acme"), int | None)
    assert_type(q.groups.blocking("acme"), list[FullGroup])
    assert_type(q.dead_letters.list("acme"), Page[DeadLetter])
    assert_type(q.dead_letters.get("acme", "emails", "invoice-1"), DeadLetter | None)
    assert_type(q.audit(), list[Finding])
    assert_type(q.stats(), dict[str, int])


def steering(q: FairQueue) -> None:
    q.tenants.set("acme", weight=2)
    q.tenants.pause("acme")
    q.tenants.resume("acme")
    q.queues.pause("acme", "emails")
    q.queues.resume("acme", "emails")
    q.groups.set_limit("tenant", "acme", None)
    q.groups.clear_limit("tenant", "acme")
    assert_type(q.queues.purge("acme"), int)
    assert_type(q.dead_letters.redrive("acme", "emails", "invoice-1"), bool)
    assert_type(q.dead_letters.redrive_all("acme", where=lambda letter: letter.attempts > 3, rate=10), int)
    assert_type(q.dead_letters.purge("acme", older_than=timedelta(days=7)), int)
    with q.running():
        assert_type(q.health(), dict[str, bool])
    assert_type(q.reclaimer.run_once() + q.dispatcher.run_once() + q.sweeper.run_once(), int)
    q.close()


def calling(q: FairQueue) -> None:
    tasks = Tasks(q)
    Tasks(lambda: q)

    @tasks.task("invoice.send", queue_id="mail", retry=ExponentialBackoff())
    def send(number: int, *, copies: int = 1) -> str:
        return f"{number} {copies}"

    assert_type(send(1), str)
    assert_type(send.enqueue(42, tenant_id="acme", delay=5), Receipt)
    assert_type(send.using(tenant_id="acme").enqueue(42, copies=2), Receipt)
    assert_type(send.name, str)
    send.using(tenant_id="acme").enqueue("42")  # type: ignore[arg-type]
    send.using(tenant_id="acme").enqueue(42, color=1)  # type: ignore[call-arg]
    send("42")  # type: ignore[arg-type]
    send.enqueue(42, tenant_id=7)  # type: ignore[arg-type]
    plain: Task[[int], None] = tasks.task("plain")(print_number)
    call: TaskCall[[int]] = plain.using(delay=1)
    with tenant_context("acme"):
        call.enqueue(1)
        assert_type(current_tenant(), str | None)
    Worker(q, tasks.handler)
    assert_type(tasks.names, list[str])


def print_number(number: int, /) -> None:
    del number


def in_flask(app: Flask) -> None:
    fq = FlaskFairQueue()
    fq.init_app(app)

    @fq.task("invoice.send", retry=NoRetry())
    def send(number: int) -> None:
        del number

    @fq.handles("mail")
    def mail(delivery: Delivery) -> int:
        return delivery.attempt

    send.using(delay=5).enqueue(1)
    send.using(delay=5).enqueue("1")  # type: ignore[arg-type]
    assert_type(fq.enqueue({"to": "you"}, queue_id="mail"), Receipt)
    assert_type(fq.queue, FairQueue)
    assert_type(fq.current_tenant(), str | None)
    assert_type(fq.worker(app, threads=4), Worker)
    fq.close(app)


def failing(q: FairQueue, client: redis.Redis) -> str | None:
    flaky = FlakyRedis(client, drop_after=2)
    FairQueue(flaky)
    try:
        q.enqueue(1, tenant_id="acme")
    except OutcomeUnknown as error:
        q.enqueue(1, tenant_id="acme", message_id=error.message_id)
    except FairQueueError as error:
        return str(error)
    return None


class Telling:
    """A hook."""

    def __call__(self, event: Event) -> None:
        if isinstance(event, Reclaimed):
            assert_type(event.dead, bool)


class Ten:
    """A limiter."""

    def acquire(self, n: int = 1, /) -> Decision:
        return Decision(n <= 10, datetime.now(UTC))


class First:
    """A policy."""

    def select(self, view: Any, /) -> list[Turn]:
        return [Turn("acme", "emails", 5)]


hook: Hook = Telling()
limiter: RateLimiter = Ten()
policy: Scheduler = First()
