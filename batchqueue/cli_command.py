"""What every command shares: where the queue is, how errors end, and text that is safe on a terminal."""

from __future__ import annotations

import json
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from batchqueue.batch_queue import BatchQueue
from batchqueue.errors import UnknownBatch
from fairqueue.errors import FairQueueError

if TYPE_CHECKING:
    from collections.abc import Callable

    from batchqueue.batch import Batch
    from batchqueue.record import BatchProgress

URL_VARIABLES = ["BATCHQUEUE_URL", "FAIRQUEUE_URL"]


class Commands(click.Group):
    """Commands whose expected errors are one line and exit code 1."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run one."""
        try:
            return super().invoke(ctx)
        except FairQueueError as error:
            raise click.ClickException(printable(str(error))) from None


def on_queue(command: Callable[..., object]) -> Callable[..., None]:
    """A command that is given the queue as *b*, and as *as_json* whether a program reads its output."""

    @click.option("--url", envvar=URL_VARIABLES, show_envvar=True, required=True, help="The server: redis://, unix://.")
    @click.option("--namespace", envvar="BATCHQUEUE_NAMESPACE", default="batchqueue", show_default=True)
    @click.option("--shards", type=click.IntRange(1, 1024), default=1, show_default=True, help="Its shard_count.")
    @click.option("--json", "as_json", is_flag=True, help="Write JSON, an object a line.")
    @wraps(command)
    def run(*, url: str, namespace: str, shards: int, **rest: Any) -> None:
        with BatchQueue.connect(url, namespace=namespace, shard_count=shards) as b:
            command(b, **rest)

    return run


def on_batch(command: Callable[..., object]) -> Callable[..., None]:
    """A command that is given a *batch* which is there, and *as_json*."""

    @named
    @wraps(command)
    def run(b: BatchQueue, *, tenant_id: str, batch_id: str, **rest: Any) -> None:
        command(found(b, tenant_id, batch_id), **rest)

    return on_queue(run)


def named(command: Callable[..., object]) -> Callable[..., object]:
    """Takes the name of a batch: BATCH and --tenant."""
    argument = click.argument("batch_id", metavar="BATCH")
    option = click.option("--tenant", "tenant_id", required=True, metavar="TENANT", help="Whose batch it is.")
    return argument(option(command))


def found(b: BatchQueue, tenant_id: str, batch_id: str) -> Batch:
    """A batch that is there.

    Raises:
        UnknownBatch: it is not.
    """
    batch = b.get(tenant_id, batch_id)
    if batch is None:
        raise UnknownBatch(
            f"there is no batch {batch_id!r} of tenant {tenant_id!r} in namespace {b.options.namespace!r}: make it "
            "with `batchqueue init`, or see what is there with `batchqueue list`",
            tenant_id=tenant_id,
            batch_id=batch_id,
        )
    return batch


def printable(text: str) -> str:
    """Text for a terminal: what is not a printable character is written as an escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def say(text: str) -> None:
    """A line of output."""
    click.echo(printable(text))


def say_json(**values: Any) -> None:
    """A line of output for a program; ASCII only, so it steers no terminal either."""
    click.echo(json.dumps(values, default=str))


def summary(progress: BatchProgress) -> str:
    """A batch's figures in a line."""
    of = "" if progress.item_count is None else f" of {progress.item_count:,}"
    return (
        f"{progress.status}: {progress.enqueued:,}{of} in, {progress.succeeded:,} succeeded, "
        f"{progress.failed:,} failed, {progress.cancelled:,} cancelled, {progress.remaining:,} to come"
    )


def brief(progress: BatchProgress) -> str:
    """The same beside a bar."""
    return (
        f"{progress.status}, {progress.succeeded:,} succeeded, {progress.failed:,} failed, "
        f"{progress.remaining:,} to come"
    )
