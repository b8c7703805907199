"""Handlers: which function handles the messages of which queue, for applications that declare them in many places."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from fairqueue.errors import ConfigurationError
from fairqueue.ids import check_id
from fairqueue.tenancy import tenant_context

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairqueue.delivery import Delivery
    from fairqueue.tasks import Tasks

Handler = TypeVar("Handler", bound="Callable[[Delivery], object]")


class Handlers:
    """Handlers by queue id; what no handler is declared for is a call of one of *tasks*."""

    def __init__(self, tasks: Tasks) -> None:
        """Declare nothing yet."""
        self.tasks = tasks
        self._by_queue: dict[str, Callable[[Delivery], object]] = {}

    def queue(self, queue_id: str) -> Callable[[Handler], Handler]:
        """Have the function below handle the messages of every tenant's queue *queue_id*.

        Raises:
            InvalidId: not an id.
            ConfigurationError: another function does.
        """
        check_id("queue_id", queue_id)

        def register(handler: Handler) -> Handler:
            if self._by_queue.setdefault(queue_id, handler) is not handler:
                raise ConfigurationError(f"two handlers are declared for queue {queue_id!r}")
            return handler

        return register

    def handler(self, delivery: Delivery) -> None:
        """Handle *delivery* for its tenant; a `Worker`'s handler.

        Raises:
            Bury: nothing is declared for it.
        """
        handle = self._by_queue.get(delivery.queue_id, self.tasks.handler)
        with tenant_context(delivery.tenant_id):
            handle(delivery)

    @property
    def queue_ids(self) -> list[str]:
        """The queues that have a handler, sorted."""
        return sorted(self._by_queue)
