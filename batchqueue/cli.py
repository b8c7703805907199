"""The command ``batchqueue``: fill batches from files, watch and steer them, and run workers.

Exit codes: 0 done, 1 failed or refused (one line on stderr says what and what to do), 2 wrong usage.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import attrs
import click

from batchqueue.batch import every
from batchqueue.cli_command import Commands, brief, named, on_batch, on_queue, say, say_json, summary
from batchqueue.cli_intake import add
from batchqueue.cli_meter import meter
from batchqueue.cli_worker import worker
from batchqueue.record import ENDED
from batchqueue.stream import MAX_ITEMS

if TYPE_CHECKING:
    from batchqueue.batch import Batch
    from batchqueue.batch_queue import BatchQueue
    from batchqueue.record import BatchInfo

STATES = ("filling", "sealed", "completing", *sorted(ENDED))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="fairqueue")
def main() -> None:
    """Batches of items: fill them from files, watch and steer them, and run workers."""


main.add_command(add)
main.add_command(worker)


def _metadata(_: click.Context, __: click.Parameter, value: str | None) -> dict[str, Any] | None:
    try:
        read = None if value is None else json.loads(value)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"not JSON: {error}") from None
    if read is not None and not isinstance(read, dict):
        raise click.BadParameter('a JSON object is needed, such as {"source": "nightly"}')
    return read


@main.command
@on_queue
@named
@click.option("--items", "item_count", type=click.IntRange(0, MAX_ITEMS), help="How many it will have.")
@click.option("--metadata", callback=_metadata, help="A JSON object for every item and the completion callback.")
@click.option("--concurrency", "processing_concurrency", type=click.IntRange(0), help="Items of it that run at once.")
@click.option("--fill-timeout", type=float, help="Seconds for filling it.")
@click.option("--idempotency-key", help="Names this call: again, it answers with the batch that it made.")
def init(b: BatchQueue, *, as_json: bool, tenant_id: str, batch_id: str, **parameters: Any) -> None:
    """Make a batch.

    Again with the same parameters: the batch that is there.
    """
    _tell(b.initialize(batch_id, tenant_id=tenant_id, **parameters), as_json=as_json)


@main.command
@on_batch
@click.option("--items", "item_count", type=click.IntRange(0, MAX_ITEMS), help="How many it has, if more will come.")
def seal(batch: Batch, *, as_json: bool, item_count: int | None) -> None:
    """Say that no more items will come."""
    batch.seal(item_count)
    _tell(batch, as_json=as_json)


@main.command
@on_batch
def status(batch: Batch, *, as_json: bool) -> None:
    """Say how far a batch is."""
    _tell(batch, as_json=as_json)


@main.command
@on_batch
@click.option("--interval", type=click.FloatRange(0.05, 3600), default=0.5, show_default=True, help="Seconds.")
def watch(batch: Batch, *, as_json: bool, interval: float) -> None:
    """Follow a batch to its end.

    Exit 0 when every item succeeded, else 1.
    """
    progress = batch.progress()
    if as_json:
        _tell(batch, as_json=True)
        while progress.status not in ENDED:
            time.sleep(interval)
            before, progress = progress, batch.progress()
            if progress != before:
                _tell(batch, as_json=True)
    else:
        with meter(batch.batch_id, err=False) as shown:
            while True:
                total = progress.item_count or progress.enqueued or None
                shown.show(progress.processed + progress.cancelled, brief(progress), total=total)
                if progress.status in ENDED:
                    break
                time.sleep(interval)
                progress = batch.progress()
    if progress.status != "completed":
        raise SystemExit(1)


@main.command
@on_batch
def failures(batch: Batch, *, as_json: bool) -> None:
    """List every item that failed for good, by index."""
    for failure in every(lambda cursor: batch.failures(limit=500, cursor=cursor)):
        if as_json:
            say_json(**attrs.asdict(failure) | {"at": failure.at.isoformat()})
        else:
            when = failure.at.isoformat(sep=" ", timespec="seconds")
            how = f"{failure.code}  attempts {failure.attempts} ({failure.reason})"
            say(f"{failure.index}  {when}  {how}: {failure.error}")


@main.command
@on_batch
@click.option("--yes", is_flag=True, help="Do not ask.")
def cancel(batch: Batch, *, as_json: bool, yes: bool) -> None:
    """Start no more of a batch; what runs may end."""
    if not yes:
        where = f"batch {batch.batch_id!r} of tenant {batch.tenant_id!r}"
        click.confirm(f"Cancel {where}, {batch.progress().remaining:,} items to come?", abort=True, err=True)
    if not batch.cancel():
        raise click.ClickException(
            f"batch {batch.batch_id!r} of tenant {batch.tenant_id!r} is {batch.progress().status}: nothing to cancel"
        )
    _tell(batch, as_json=as_json)


@main.command("retry-failed")
@on_batch
def retry_failed(batch: Batch, *, as_json: bool) -> None:
    """Run again what failed for good.

    At its end the batch calls back once more, under a new completion id.
    """
    n = batch.redrive_failures()
    if as_json:
        say_json(tenant_id=batch.tenant_id, batch_id=batch.batch_id, retried=n)
    else:
        say(f"batch {batch.batch_id}: {n:,} items run again")


@main.command("retry-callback")
@on_batch
def retry_callback(batch: Batch, *, as_json: bool) -> None:
    """Call the completion callback again, after it was given up on."""
    if not batch.retry_callback():
        raise click.ClickException(
            f"batch {batch.batch_id!r} of tenant {batch.tenant_id!r} is {batch.progress().status}: only a batch "
            "that is callback_failed can be called back again"
        )
    _tell(batch, as_json=as_json)


@main.command("list")
@on_queue
@click.option("--tenant", "tenant_id", help="Only this tenant's.")
@click.option("--status", "state", type=click.Choice(STATES), help="Only those in this state.")
def list_batches(b: BatchQueue, *, as_json: bool, tenant_id: str | None, state: str | None) -> None:
    """List batches, by tenant and id."""
    info: BatchInfo
    for info in every(lambda cursor: b.list(tenant_id, status=state, limit=500, cursor=cursor)):
        figures = attrs.asdict(info.progress)
        if as_json:
            say_json(
                tenant_id=info.tenant_id, batch_id=info.batch_id, created_at=info.created_at.isoformat(), **figures
            )
        else:
            say(f"{info.tenant_id}  {info.batch_id}  {summary(info.progress)}")


def _tell(batch: Batch, *, as_json: bool) -> None:
    progress = batch.progress()
    if as_json:
        say_json(
            tenant_id=batch.tenant_id,
            batch_id=batch.batch_id,
            created_at=batch.created_at.isoformat(),
            metadata=batch.metadata,
            next_index=batch.next_index(),
            **attrs.asdict(progress),
        )
    else:
        say(f"batch {batch.batch_id} of {batch.tenant_id} is {summary(progress)}; next index {batch.next_index():,}")
