"""Producer: accepting messages, one or many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from fairqueue.errors import FairQueueError, InvalidArgument, OutcomeUnknown, Unavailable
from fairqueue.events import Enqueued, Events
from fairqueue.ids import check_id
from fairqueue.message import NewMessage, Receipt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fairqueue.opening import Opening
    from fairqueue.resolver import Resolver
    from fairqueue.store.intake import Entry, Intake

CHUNK = 500  # messages a script
CHUNK_BYTES = 1_048_576


@attrs.frozen
class Producer:
    """Checks and resolves in Python, writes in one script a chunk."""

    resolver: Resolver
    intake: Intake
    opened: Opening
    events: Events

    def add(self, message: NewMessage) -> Receipt:
        """Accept one message."""
        call_id = self.resolver.call_id()
        entry = self.resolver.entry(message, call_id)
        return self._write(message.tenant_id, message.queue_id, call_id, [entry], [])[0]

    def add_many(self, items: Iterable[Any], tenant_id: str, queue_id: str) -> list[Receipt]:
        """Accept many; a list or tuple whole or not at all, any other iterable chunk by chunk."""
        self.resolver.shard(tenant_id)
        check_id("queue_id", queue_id)
        call_id = self.resolver.call_id()
        one_piece = isinstance(items, list | tuple)
        prepared = (self._prepare(item, tenant_id, queue_id, call_id, tolerant=not one_piece) for item in items)
        receipts: list[Receipt] = []
        for chunk in _chunks(list(prepared) if one_piece else prepared):
            entries = [item for item in chunk if not isinstance(item, Receipt)]
            written = iter(self._write(tenant_id, queue_id, call_id, entries, receipts) if entries else ())
            receipts += [item if isinstance(item, Receipt) else next(written) for item in chunk]
        return receipts

    def _prepare(
        self, item: Any, tenant_id: str, queue_id: str, call_id: bytes, *, tolerant: bool
    ) -> tuple[str, Entry] | Receipt:
        message = item if isinstance(item, NewMessage) else NewMessage(payload=item)
        if message.tenant_id not in {"", tenant_id} or message.queue_id not in {"default", queue_id}:
            raise InvalidArgument(
                f"enqueue_batch fills queue {queue_id!r} of tenant {tenant_id!r}; one message names "
                f"queue {message.queue_id!r} of tenant {message.tenant_id!r}"
            )
        message = attrs.evolve(message, tenant_id=tenant_id, queue_id=queue_id)
        try:
            return self.resolver.entry(message, call_id)
        except FairQueueError as error:
            if not tolerant:
                raise
            given = message.message_id if isinstance(message.message_id, str) else ""
            return Receipt(tenant_id=tenant_id, queue_id=queue_id, message_id=given, created=False, error=error)

    def _write(
        self, tenant_id: str, queue_id: str, call_id: bytes, entries: list[tuple[str, Entry]], done: list[Receipt]
    ) -> list[Receipt]:
        shard = self.resolver.shard(tenant_id)
        ids = tuple(message_id for message_id, _ in entries)
        try:
            created = self.intake.add(self.opened(shard), call_id, [entry for _, entry in entries])
        except (OutcomeUnknown, Unavailable) as error:
            more = f" and {len(ids) - 1} more" if ids[1:] else ""
            text = f"{error} (message {ids[0]!r}{more}, queue {queue_id!r}, tenant {tenant_id!r})"
            known = {**vars(error), "message_id": ids[0], "message_ids": ids, "receipts": tuple(done)}
            raise type(error)(text, **known) from error
        if self.events and any(created):
            self.events.emit(Enqueued(tenant_id=tenant_id, queue_id=queue_id, count=sum(created)))
        return [
            Receipt(tenant_id=tenant_id, queue_id=queue_id, message_id=message_id, created=new)
            for message_id, new in zip(ids, created, strict=True)
        ]


def _chunks(items: Iterable[tuple[str, Entry] | Receipt]) -> Iterator[list[tuple[str, Entry] | Receipt]]:
    """Cut a stream so that no script carries too many messages or bytes."""
    chunk: list[tuple[str, Entry] | Receipt] = []
    size = 0
    for item in items:
        chunk.append(item)
        size += 0 if isinstance(item, Receipt) else len(item[1].body)
        if len(chunk) >= CHUNK or size >= CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
