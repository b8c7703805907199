"""Tasks: functions under explicit names, called by message. A thin layer: one handler that looks up the name."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar

from fairqueue.errors import Bury, ConfigurationError, shown
from fairqueue.ids import check_id
from fairqueue.retry import RetryPolicy
from fairqueue.tenancy import current_tenant, tenant_context, tenant_or_current

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime, timedelta

    from fairqueue.delivery import Delivery
    from fairqueue.message import Receipt

P = ParamSpec("P")
R = TypeVar("R")


class Queue(Protocol):
    """What tasks need of a queue: a FairQueue has it."""

    @property
    def enqueue(self) -> Callable[..., Receipt]:
        """``enqueue(payload, *, tenant_id, queue_id, ...)``."""


class Tasks:
    """A registry of tasks, and the handler that runs them.

    Names are given by hand and are all that a message carries; nothing is imported by what stands in one. A name that
    is not registered, and arguments that do not fit, go to the dead letters, where they wait for a redrive.

    Args:
        queue: where tasks are enqueued: a FairQueue, or a function that gives one, asked at each enqueue.
        tenant: gives the tenant of a call that names none.

    Example:
        >>> tasks = Tasks(lambda: queue)
        >>> @tasks.task("invoice.send")
        ... def send_invoice(number: int) -> None: ...
        >>> send_invoice.name
        'invoice.send'
    """

    def __init__(  # noqa: D107 - above
        self, queue: Queue | Callable[[], Queue], *, tenant: Callable[[], str | None] = current_tenant
    ) -> None:
        self._queue = queue
        self.tenant = tenant
        self._tasks: dict[str, Task[Any, Any]] = {}

    def task(
        self, name: str, *, queue_id: str = "default", retry: RetryPolicy | None = None
    ) -> Callable[[Callable[P, R]], Task[P, R]]:
        """Register the function below under *name*.

        Args:
            name: an id; it stands in messages, so it outlives renamed functions.
            queue_id: the tenant's queue its calls go to.
            retry: the policy for its failures; None: the queue's. A lost worker always counts by the queue's.

        Raises:
            InvalidId: *name* or *queue_id* is not an id.
            ConfigurationError: the name is taken, *retry* is no policy, or a parameter has a name of `Task.enqueue`.
        """
        if retry is not None and (isinstance(retry, type) or not isinstance(retry, RetryPolicy)):
            raise ConfigurationError(f"retry={shown(retry)} is not allowed: an object with next_delay is needed")

        def register(function: Callable[P, R]) -> Task[P, R]:
            made = Task(self, check_id("task name", name), function, check_id("queue_id", queue_id), retry)
            if self._tasks.setdefault(name, made) is not made:
                raise ConfigurationError(f"two tasks have the name {name!r}")
            return made

        return register

    def handler(self, delivery: Delivery) -> None:
        """Run the task that *delivery* names; a `Worker`'s handler.

        Raises:
            Bury: no such task, or arguments that do not fit.
        """
        task, args, kwargs = self._call(delivery.payload)
        delivery.retry = task.retry
        with tenant_context(delivery.tenant_id):
            task.function(*args, **kwargs)

    @property
    def names(self) -> list[str]:
        """Of all tasks, sorted."""
        return sorted(self._tasks)

    @property
    def queue(self) -> Queue:
        """Where tasks are enqueued."""
        return self._queue() if callable(self._queue) else self._queue

    def _call(self, payload: Any) -> tuple[Task[Any, Any], list[Any], dict[str, Any]]:
        try:
            name, args, kwargs = payload["task"], payload["args"], payload["kwargs"]
            task = self._tasks[name]
        except (TypeError, KeyError, IndexError):
            found = payload.get("task") if isinstance(payload, dict) else None
            raise Bury(f"no task is registered as {shown(found)}") from None
        try:
            task.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise Bury(f"task {name!r}: {error}") from None
        return task, args, kwargs


class Task(Generic[P, R]):
    """A registered function: call it to run it here, enqueue it to have a worker run it."""

    def __init__(  # noqa: D107 - made by Tasks.task
        self, registry: Tasks, name: str, function: Callable[P, R], queue_id: str, retry: RetryPolicy | None
    ) -> None:
        self.name = name
        self.function = function
        self.queue_id = queue_id
        self.retry = retry
        self.signature = inspect.signature(function)
        self._registry = registry
        self.__doc__ = function.__doc__
        if taken := _OPTIONS & set(self.signature.parameters):
            raise ConfigurationError(f"task {name!r}: the parameter {min(taken)!r} is one of enqueue's own; rename it")

    def __repr__(self) -> str:
        """Its name."""
        return f"<Task {self.name}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run it here and now."""
        return self.function(*args, **kwargs)

    def enqueue(
        self,
        *args: Any,
        tenant_id: str | None = None,
        queue_id: str | None = None,
        message_id: str | None = None,
        delay: float | timedelta | None = None,
        not_before: datetime | None = None,
        expires_in: float | timedelta | None = None,
        priority: int = 0,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Receipt:
        """Have a worker call it with these arguments, plain JSON values; the options are those of `FairQueue.enqueue`.

        *tenant_id*: None takes that of `tenant_context`; inside a task that is the task's own tenant. Arguments are
        checked here against the signature; `using` has them checked by the type checker too.

        Raises:
            TypeError: the arguments do not fit the function.
            InvalidArgument, PayloadError, Unavailable, OutcomeUnknown: as `FairQueue.enqueue`.
        """
        self.signature.bind(*args, **kwargs)
        return self._registry.queue.enqueue(
            {"task": self.name, "args": list(args), "kwargs": kwargs},
            tenant_id=tenant_or_current(tenant_id, self._registry.tenant),
            queue_id=self.queue_id if queue_id is None else queue_id,
            message_id=message_id,
            delay=delay,
            not_before=not_before,
            expires_in=expires_in,
            priority=priority,
            metadata=metadata,
        )

    def using(self, **options: Any) -> TaskCall[P]:
        """The same with options of `enqueue` set; what it returns takes the function's own arguments, typed.

        Raises:
            TypeError: there is no such option.
        """
        if unknown := set(options) - _OPTIONS:
            raise TypeError(f"using() got an unexpected keyword argument {min(unknown)!r}")
        return TaskCall(self, options)


class TaskCall(Generic[P]):
    """A task with options: ``send.using(tenant_id="acme").enqueue(42)``."""

    def __init__(self, task: Task[P, Any], options: dict[str, Any]) -> None:  # noqa: D107 - made by Task.using
        self._task = task
        self._options = options

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Receipt:
        """As `Task.enqueue`."""
        call: dict[str, Any] = {**kwargs, **self._options}
        return self._task.enqueue(*args, **call)


_OPTIONS = {
    name
    for name, parameter in inspect.signature(Task.enqueue).parameters.items()
    if parameter.kind is parameter.KEYWORD_ONLY
}
