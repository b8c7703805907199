"""Messages as values, and their stored form: the only module that knows it besides lua/_record.lua."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import attrs
import msgspec

from fairqueue.errors import PayloadError
from fairqueue.ids import unquote
from fairqueue.keys import split_message_key

if TYPE_CHECKING:
    from datetime import timedelta

    from fairqueue.payload import Codec

_HEADER = struct.Struct(">12sddHHBHI")
CALL_ID_BYTES = 8
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder().decode


@attrs.frozen(kw_only=True)
class NewMessage:
    """A message that is about to be enqueued; what `group_id` and `worker_queue` callables are shown."""

    payload: Any = attrs.field(repr=False)
    tenant_id: str = ""
    queue_id: str = "default"
    message_id: str | None = None
    delay: float | timedelta | None = None
    not_before: datetime | None = None
    expires_in: float | timedelta | None = None
    priority: int = 0
    metadata: dict[str, Any] | None = attrs.field(default=None, repr=False)


@attrs.frozen(kw_only=True)
class Receipt:
    """The answer to an enqueue. *created*: False when the id was there already; *error*: why it was refused (bulk)."""

    tenant_id: str
    queue_id: str
    message_id: str
    created: bool
    error: Exception | None = None


@attrs.frozen(kw_only=True)
class Failure:
    """One delivery that did not end well."""

    at: datetime
    kind: str
    text: str = attrs.field(repr=False)
    attempt: int
    delivery: int


@attrs.frozen(kw_only=True)
class Lease:
    """A delivery as the server gave it: whose it is and what was stored."""

    key: str
    token: str
    deliveries: int
    attempt: int
    enqueued_ms: float
    order_ms: float
    body: bytes = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class DeadLetter:
    """A message that is given up on, with its whole history."""

    tenant_id: str
    queue_id: str
    message_id: str
    payload: Any = attrs.field(repr=False)
    raw: bytes = attrs.field(repr=False)
    metadata: dict[str, Any] | None = attrs.field(repr=False)
    reason: str
    attempts: int
    deliveries: int
    enqueued_at: datetime
    dead_at: datetime
    errors: tuple[Failure, ...]

    @property
    def last_error(self) -> str:
        """Type and text of the last failure."""
        return f"{self.errors[-1].kind}: {self.errors[-1].text}" if self.errors else ""


@attrs.frozen(kw_only=True)
class MessageInfo:
    """Where a message is: *state* is waiting, delayed, dispatched, leased or dead; *paused*: its tenant or queue is."""

    tenant_id: str
    queue_id: str
    message_id: str
    state: str
    paused: bool
    attempt: int
    deliveries: int
    worker_queue: str
    enqueued_at: datetime
    due_at: datetime
    payload: Any = attrs.field(repr=False)
    metadata: dict[str, Any] | None = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class QueueInfo:
    """A queue with messages that wait (delayed ones included); *oldest* is the order time of the first.

    *paused*: it or its tenant is paused.
    """

    tenant_id: str
    queue_id: str
    waiting: int
    oldest: datetime
    paused: bool


@attrs.frozen(kw_only=True)
class InflightInfo:
    """A delivery under way: whose it is and until when."""

    tenant_id: str
    queue_id: str
    message_id: str
    token: str
    attempt: int
    deliveries: int
    worker_id: str
    since: datetime
    deadline: datetime


def moment(ms: float) -> datetime:
    """An aware datetime of a stored time."""
    return datetime.fromtimestamp(ms / 1000, UTC)


def pack_body(call_id: bytes, payload: bytes, metadata: dict[str, Any] | None) -> bytes:
    """The part of a record that only clients read."""
    return call_id + _pack([payload] if metadata is None else [payload, metadata])


def unpack_body(body: bytes) -> tuple[bytes, dict[str, Any] | None]:
    """Payload bytes and metadata of a body.

    Raises:
        PayloadError: these bytes are not a body.
    """
    try:
        parts = _unpack(body[CALL_ID_BYTES:])
        return parts[0], parts[1] if len(parts) > 1 else None
    except (msgspec.MsgspecError, IndexError, TypeError, ValueError) as error:
        msg = f"the stored record is unreadable: {error}"
        raise PayloadError(msg) from None


def read_lease(key: bytes, token: bytes, raw: bytes, deliveries: int) -> Lease:
    """A lease from the reply of a take."""
    _, order, enqueued, attempt, _, _, n_stream, n_history = _HEADER.unpack_from(raw)
    return Lease(
        key=key.decode(),
        token=token.decode(),
        deliveries=deliveries,
        attempt=attempt,
        enqueued_ms=enqueued,
        order_ms=order,
        body=raw[_HEADER.size + n_stream + n_history :],
    )


def read_payload(raw: bytes) -> bytes:
    """The payload of a record as it is stored; of an unreadable one, what there is."""
    *_, n_stream, n_history = _HEADER.unpack_from(raw)
    body = raw[_HEADER.size + n_stream + n_history :]
    try:
        return unpack_body(body)[0]
    except PayloadError:
        return body


def read_dead_letter(key: bytes, raw: bytes, codec: Codec) -> DeadLetter:
    """A dead letter from its record; a payload that cannot be read is None, its bytes are in ``raw``."""
    _, _, enqueued, attempt, deliveries, _, n_stream, n_history = _HEADER.unpack_from(raw)
    at = _HEADER.size + n_stream
    reason, dead_at, failures = _unpack(raw[at : at + n_history])
    body = raw[at + n_history :]
    try:
        stored, metadata = unpack_body(body)
    except PayloadError:
        stored, metadata = body, None
    try:
        payload = codec.decode(stored)
    except PayloadError:
        payload = None
    tenant_id, queue_id, message_id = split_message_key(key.decode())
    return DeadLetter(
        tenant_id=tenant_id,
        queue_id=queue_id,
        message_id=message_id,
        payload=payload,
        raw=stored,
        metadata=metadata,
        reason=reason,
        attempts=attempt,
        deliveries=deliveries,
        enqueued_at=moment(enqueued),
        dead_at=moment(dead_at),
        errors=tuple(Failure(at=moment(t), kind=k, text=x, attempt=a, delivery=d) for t, k, x, a, d in failures),
    )


def read_info(key: str, state: str, raw: bytes, codec: Codec, *, paused: bool) -> MessageInfo:
    """Where a message is, from its record."""
    _, order, enqueued, attempt, deliveries, _, n_stream, n_history = _HEADER.unpack_from(raw)
    at = _HEADER.size
    worker_queue = unquote(raw[at : at + n_stream].decode().split("/")[0])
    try:
        stored, metadata = unpack_body(raw[at + n_stream + n_history :])
        payload = codec.decode(stored)
    except PayloadError:
        payload, metadata = None, None
    tenant_id, queue_id, message_id = split_message_key(key)
    return MessageInfo(
        tenant_id=tenant_id,
        queue_id=queue_id,
        message_id=message_id,
        state=state,
        paused=paused,
        attempt=attempt,
        deliveries=deliveries,
        worker_queue=worker_queue,
        enqueued_at=moment(enqueued),
        due_at=moment(order),
        payload=payload,
        metadata=metadata,
    )
