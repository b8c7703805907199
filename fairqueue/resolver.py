"""Resolver: everything about a new message, checked and settled before anything is written."""

from __future__ import annotations

import itertools
import os
import secrets
from typing import TYPE_CHECKING, Any

import msgspec

from fairqueue.durations import due
from fairqueue.errors import ConfigurationError, InvalidArgument, PayloadError
from fairqueue.ids import check_id, quote
from fairqueue.keys import group_key, stream_name
from fairqueue.message import CALL_ID_BYTES, NewMessage, pack_body
from fairqueue.sharding import shard_of
from fairqueue.store.intake import Entry

if TYPE_CHECKING:
    from fairqueue.limits import LiveLimits
    from fairqueue.options import ConcurrencyGroup, FairQueueOptions, GroupId
    from fairqueue.payload import Codec

MAX_METADATA_BYTES = 4096


class Names:
    """Unique names of this process: message ids, call ids. Drawn anew after a fork."""

    def __init__(self) -> None:
        """Draw a prefix."""
        self._draw()

    def _draw(self) -> None:
        self._pid = os.getpid()
        self.process = secrets.token_hex(6)
        self._count = itertools.count(1)

    def next(self) -> str:
        """A name no other process or call has."""
        if os.getpid() != self._pid:
            self._draw()
        return f"{self.process}{next(self._count):08x}"


class Resolver:
    """Turns a `NewMessage` into the entry that is stored, and its shard."""

    def __init__(self, options: FairQueueOptions, codec: Codec, names: Names, limits: LiveLimits) -> None:
        """Collaborators are handed in."""
        self._options = options
        self._codec = codec
        self._names = names
        self._limits = limits

    def shard(self, tenant_id: str) -> int:
        """The shard that holds a tenant.

        Raises:
            InvalidId: not an id.
        """
        check_id("tenant_id", tenant_id)
        return self.shard_of_key(tenant_id if self._options.shard_count == 1 else self._shard_key(tenant_id))

    def shard_of_key(self, key: str) -> int:
        """The shard of a shard key."""
        return shard_of(key, self._options.shard_count)

    def _shard_key(self, tenant_id: str) -> str:
        by = self._options.shard_by
        return tenant_id if by is None else check_id("shard key", by(tenant_id))

    def call_id(self) -> bytes:
        """A fresh id for one call."""
        return secrets.token_bytes(CALL_ID_BYTES)

    def entry(self, message: NewMessage, call_id: bytes) -> tuple[str, Entry]:
        """The message's id and its entry.

        Raises:
            InvalidArgument, InvalidId, PayloadError, ConfigurationError: nothing may be stored of it.
        """
        tenant_id = check_id("tenant_id", message.tenant_id)
        queue_id = check_id("queue_id", message.queue_id)
        message_id = self._names.next() if message.message_id is None else check_id("message_id", message.message_id)
        if message.expires_in is not None:
            raise InvalidArgument("expires_in is not available in this version")
        if isinstance(message.priority, bool) or message.priority != 0:
            raise InvalidArgument(f"priority={message.priority!r}: only 0 is available in this version")
        what = f"payload of message {message_id!r} (tenant {tenant_id!r}, queue {queue_id!r})"
        worker_queue: Any = self._options.worker_queue
        if callable(worker_queue):
            worker_queue = check_id("worker_queue", worker_queue(message))
        ids = [(group.name, self._group_id(group, message)) for group in self._options.concurrency_groups]
        stream = stream_name(
            tenant_id, queue_id, worker_queue, message.priority, [group_key(name, group_id) for name, group_id in ids]
        )
        body = pack_body(call_id, self._codec.encode(message.payload, what), _metadata(message.metadata))
        return message_id, Entry(
            stream=stream,
            id=quote(message_id),
            due=due(message.delay, message.not_before),
            body=body,
            limits=tuple(
                (group_key(name, group_id), *self._limits.of(name, group_id))
                for name, group_id in ids
                if self._limits.gives(name)
            ),
        )

    def _group_id(self, group: ConcurrencyGroup, message: NewMessage) -> GroupId:
        group_id: GroupId = group.group_id(message)
        parts = (group_id,) if isinstance(group_id, str) else group_id
        if not isinstance(parts, tuple) or not parts:
            raise ConfigurationError(
                f"group {group.name!r}: group_id gave {type(group_id).__name__}, a str or a tuple of str is needed"
            )
        for part in parts:
            check_id(f"id of group {group.name!r}", part)
        if self._options.shard_count > 1 and parts[0] != self._shard_key(message.tenant_id):
            raise ConfigurationError(
                f"group {group.name!r} gave {group_id!r}: with shard_count > 1 a group id is the shard key "
                f"({self._shard_key(message.tenant_id)!r}) or a tuple that starts with it; set shard_by to the wider id"
            )
        return parts if len(parts) > 1 else parts[0]


def _metadata(metadata: dict[str, Any] | None) -> dict[str, Any] | None:
    if not metadata:
        return None
    if not isinstance(metadata, dict) or not all(isinstance(key, str) for key in metadata):
        raise InvalidArgument("metadata must be a dict with str keys")
    try:
        size = len(msgspec.msgpack.encode(metadata))
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise PayloadError(f"metadata cannot be stored: {type(error).__name__}: {error}"[:200]) from None
    if size > MAX_METADATA_BYTES:
        raise InvalidArgument(f"metadata is {size} bytes, at most {MAX_METADATA_BYTES} are allowed")
    return metadata
