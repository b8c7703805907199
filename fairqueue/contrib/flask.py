"""The extension for Flask: configuration from the app, handlers inside its context, ``flask fairqueue worker``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import click
from flask import current_app, has_request_context, request
from flask.cli import AppGroup, with_appcontext

from fairqueue.errors import ConfigurationError
from fairqueue.fair_queue import FairQueue
from fairqueue.handlers import Handlers
from fairqueue.options import FairQueueOptions
from fairqueue.tasks import Tasks
from fairqueue.tenancy import current_tenant, tenant_or_current
from fairqueue.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from flask import Flask, Request

    from fairqueue.delivery import Delivery
    from fairqueue.events import Hook
    from fairqueue.handlers import Handler
    from fairqueue.message import Receipt
    from fairqueue.tasks import P, R, Task

KEY = "fairqueue"
_OPTIONS = {field.name for field in attrs.fields(FairQueueOptions)}


@attrs.define(eq=False)
class _State:
    """What one app has: its settings, and its queue once it was asked for."""

    extension: FlaskFairQueue
    url: str | None
    settings: dict[str, Any]
    tenant_from_request: Callable[[Request], str | None] | None
    opened: dict[str, FairQueue] = attrs.field(factory=dict)

    @property
    def queue(self) -> FairQueue:
        """The queue, made when it is first asked for: nothing is open before a preloading server forks."""
        found = self.opened.get(KEY)
        if found is None:
            if self.url is None:
                raise ConfigurationError("FAIRQUEUE_URL is not set: where is the server? Such as redis://localhost")
            fresh = FairQueue.connect(self.url, hooks=self.extension.hooks, **self.settings)
            found = self.opened.setdefault(KEY, fresh)
            if found is not fresh:  # another thread was faster
                fresh.close()
        return found


class FlaskFairQueue:
    """A queue for one Flask app or several; everything of an app is in ``app.extensions["fairqueue"]``.

    Configuration: ``FAIRQUEUE_URL``; ``FAIRQUEUE_TENANT_FROM_REQUEST``, a function of the request that gives a tenant
    id or None; and ``FAIRQUEUE_<NAME>`` for every option of `FairQueueOptions`, such as ``FAIRQUEUE_NAMESPACE``.

    Args:
        app: to call `init_app` with at once.
        hooks: told of events; see `FairQueue`.
    """

    def __init__(self, app: Flask | None = None, *, hooks: Iterable[Hook] = ()) -> None:  # noqa: D107 - above
        self.hooks = tuple(hooks)
        self.tasks = Tasks(lambda: self.queue, tenant=self.current_tenant)
        self._handlers = Handlers(self.tasks)
        if app is not None:
            self.init_app(app)

    def init_app(self, app: Flask) -> None:
        """Read the app's configuration; opens nothing.

        Raises:
            ConfigurationError: a setting is wrong or unknown, or the app has a queue already.
        """
        if KEY in app.extensions:
            raise ConfigurationError(f"the app {app.name!r} has a queue already")
        settings: dict[str, Any] = app.config.get_namespace("FAIRQUEUE_")
        url = settings.pop("url", None)
        tenant_from_request = settings.pop("tenant_from_request", None)
        if tenant_from_request is not None and not callable(tenant_from_request):
            raise ConfigurationError("FAIRQUEUE_TENANT_FROM_REQUEST must be a function of the request")
        if unknown := set(settings) - _OPTIONS:
            raise ConfigurationError(f"there is no setting FAIRQUEUE_{min(unknown).upper()}")
        FairQueueOptions(**settings)  # refuses wrong values here
        app.extensions[KEY] = _State(self, url, settings, tenant_from_request)

    @property
    def queue(self) -> FairQueue:
        """The queue of the current app.

        Raises:
            ConfigurationError: the app has none, or FAIRQUEUE_URL is not set.
        """
        return _state(current_app).queue

    def current_tenant(self) -> str | None:
        """The tenant of `tenant_context`, else what FAIRQUEUE_TENANT_FROM_REQUEST says of the request."""
        tenant_id = current_tenant()
        if tenant_id is None and has_request_context():
            ask = _state(current_app).tenant_from_request
            return None if ask is None else ask(request)
        return tenant_id

    def enqueue(self, payload: Any, *, tenant_id: str | None = None, **options: Any) -> Receipt:
        """`FairQueue.enqueue`; without *tenant_id* for the current tenant.

        Raises:
            InvalidArgument: there is no tenant.
        """
        return self.queue.enqueue(payload, tenant_id=tenant_or_current(tenant_id, self.current_tenant), **options)

    def task(self, name: str, **options: Any) -> Callable[[Callable[P, R]], Task[P, R]]:
        """Register a task; see `Tasks.task`."""
        return self.tasks.task(name, **options)

    def handles(self, queue_id: str) -> Callable[[Handler], Handler]:
        """Have the function below handle the messages of every tenant's queue *queue_id*."""
        return self._handlers.queue(queue_id)

    def handler(self, app: Flask) -> Callable[[Delivery], None]:
        """A `Worker`'s handler: what is declared for a delivery, inside a context of *app* of its own."""

        def handle(delivery: Delivery) -> None:
            with app.app_context():
                self._handlers.handler(delivery)

        return handle

    def worker(self, app: Flask, **options: Any) -> Worker:
        """A worker for the queue of *app*; *options* are those of `Worker`."""
        return Worker(_state(app).queue, self.handler(app), **options)

    def close(self, app: Flask) -> None:
        """Close the queue of *app*; it is opened anew when it is next asked for."""
        queue = _state(app).opened.pop(KEY, None)
        if queue is not None:
            queue.close()


def _state(app: Flask) -> _State:
    state = app.extensions.get(KEY)
    if not isinstance(state, _State):
        raise ConfigurationError(f"the app {app.name!r} has no queue: call init_app")
    return state


commands = AppGroup("fairqueue", help="Queues of this app.")


@commands.command("worker")
@click.option("--worker-queue", "names", multiple=True, default=["default"], show_default=True, help="Any number.")
@click.option("--threads", type=click.IntRange(1, 1000), default=8, show_default=True)
@click.option("--grace", type=click.FloatRange(0), default=30, show_default=True, help="Seconds to drain.")
@with_appcontext
def run_worker(names: tuple[str, ...], threads: int, grace: float) -> None:
    """Handle messages until SIGTERM or SIGINT; then drain, and a second signal hurries."""
    app: Flask = current_app._get_current_object()  # type: ignore[attr-defined]  # noqa: SLF001 - Flask documents it
    extension = _state(app).extension
    worker = extension.worker(app, worker_queue=list(names), threads=threads, grace=grace)
    click.echo(f"{app.name}: {threads} threads for {', '.join(names)}; SIGTERM or Ctrl-C ends it", err=True)
    worker.run()
    extension.close(app)
