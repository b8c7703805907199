"""A batch's record as stored, and how far it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import msgspec

from fairqueue.message import moment

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

FIELDS = (
    "state", "phase", "outcome", "gen", "count", "enqueued", "succeeded", "failed", "cancelled", "created", "ended",
    "round", "metadata",
)  # fmt: skip
#: States in which a batch is over, whatever happens to its callback.
ENDED = frozenset({"completed", "completed_with_failures", "cancelled", "incomplete", "callback_failed"})


@attrs.frozen(kw_only=True)
class BatchProgress:
    """How far a batch is. *item_count* is None while it is not known.

    *enqueued* items are in, *processed* ended: *succeeded* and *failed*; *cancelled* were taken out before they
    started; *remaining* are still to come.
    """

    status: str
    item_count: int | None
    enqueued: int
    processed: int
    succeeded: int
    failed: int
    cancelled: int
    remaining: int


@attrs.frozen(kw_only=True)
class BatchInfo:
    """A batch in a listing."""

    tenant_id: str
    batch_id: str
    status: str
    progress: BatchProgress
    created_at: datetime


@attrs.frozen(kw_only=True)
class BatchRecord:
    """What is stored of a batch."""

    tenant_id: str
    batch_id: str
    gen: str
    completion_id: str
    metadata: dict[str, Any] = attrs.field(repr=False)
    outcome: str
    created_at: datetime
    ended_at: datetime | None
    progress: BatchProgress


def progress_of(state: str, count: str, enqueued: int, succeeded: int, failed: int, cancelled: int) -> BatchProgress:
    """Figures that add up."""
    known = int(count) if count else None
    return BatchProgress(
        status=state,
        item_count=known,
        enqueued=enqueued,
        processed=succeeded + failed,
        succeeded=succeeded,
        failed=failed,
        cancelled=cancelled,
        remaining=max((enqueued if known is None else known) - succeeded - failed - cancelled, 0),
    )


def read_record(tenant_id: str, batch_id: str, row: Sequence[bytes | None]) -> BatchRecord | None:
    """The record of a batch from its fields, in the order of FIELDS; None when there is none."""
    value = dict(zip(FIELDS, row, strict=True))
    if value["state"] is None:
        return None

    def number(name: str) -> int:
        return int(value[name] or 0)

    gen, rounds = (value["gen"] or b"").decode(), number("round")
    state, count = (value["state"] or b"").decode(), (value["count"] or b"").decode()
    return BatchRecord(
        tenant_id=tenant_id,
        batch_id=batch_id,
        gen=gen,
        completion_id=f"{gen}-{rounds}" if rounds else gen,
        metadata=msgspec.json.decode(value["metadata"] or b"{}"),
        outcome=(value["outcome"] or b"").decode(),
        created_at=moment(number("created")),
        ended_at=None if value["ended"] is None else moment(number("ended")),
        progress=progress_of(
            state, count, number("enqueued"), number("succeeded"), number("failed"), number("cancelled")
        ),
    )
