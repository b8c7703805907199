"""Live limits: what the callables of concurrency groups say, asked seldom, and never trusted to answer."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

import structlog

from fairqueue.durations import limit as checked_limit
from fairqueue.durations import to_ms
from fairqueue.errors import InvalidArgument, describe
from fairqueue.events import LimitFailed
from fairqueue.keys import split_group_key

if TYPE_CHECKING:
    from fairqueue.clock import Clock
    from fairqueue.events import Events
    from fairqueue.options import FairQueueOptions, GroupId
    from fairqueue.store.state import State

REMEMBERED = 10_000  # answers kept in this process, the latest used
PAGE = 100  # groups asked for between two writes
SLICE = 0.25  # seconds of one look that may go into callables
LOG_EVERY = 1.0  # seconds between two log lines
FAILED = "~"  # before a last good answer: what the shard knows stays


class LiveLimits:
    """Asks the callables: for a message that is enqueued, and again every `limit_ttl` for groups with messages."""

    def __init__(self, options: FairQueueOptions, state: State, clock: Clock, told: Events) -> None:
        """Ask nobody yet."""
        self._callables = {group.name: group.limit for group in options.concurrency_groups if group.limit is not None}
        self._ttl = float(options.limit_ttl)
        self._state = state
        self._clock = clock
        self._events = told
        self._logged = -LOG_EVERY
        self._said: OrderedDict[tuple[str, GroupId], tuple[float, str]] = OrderedDict()
        self.after_fork()

    def after_fork(self) -> None:
        """A child must not wait for a lock that a thread of its parent held."""
        self._lock = threading.Lock()

    def gives(self, name: str) -> bool:
        """Whether a callable gives the limits of this group."""
        return name in self._callables

    def of(self, name: str, group_id: GroupId) -> tuple[str, int]:
        """What the callable said last, for a script ('-1' unlimited, '~' nothing yet), and how many ms ago."""
        with self._lock:
            known = self._said.get((name, group_id))
            if known is not None:
                self._said.move_to_end((name, group_id))
        age = self._ttl if known is None else self._clock.monotonic() - known[0]
        if known is None or age >= self._ttl:
            _, said = self._ask(name, group_id)
            return said or FAILED, 0
        return known[1] or FAILED, to_ms(age)

    def now(self, name: str, group_id: GroupId) -> int | None:
        """What the callable said last (-1 unlimited), None when it never answered."""
        said, _ = self.of(name, group_id[0] if len(group_id) == 1 else group_id)
        return None if said == FAILED else int(said)

    def refresh(self, shard: int) -> float | None:
        """Ask again for the groups of a shard that are due; seconds until the next one is, None without any."""
        if not self._callables:
            return None
        end = time.monotonic() + SLICE
        while True:
            groups, due = self._state.stale_limits(shard, to_ms(self._ttl), PAGE)
            answers = [(group, self._again(group)) for group in groups if split_group_key(group)[0] in self._callables]
            if answers:
                self._state.renew_limits(shard, answers)
            if len(groups) < PAGE:
                return due
            if time.monotonic() > end:
                return 0.0

    def _again(self, group: str) -> str:
        name, parts = split_group_key(group)
        good, said = self._ask(name, parts if len(parts) > 1 else parts[0])
        return said if good else FAILED + said

    def _ask(self, name: str, group_id: GroupId) -> tuple[bool, str]:
        """Call it: whether it answered, and its last good answer. Asked again a ttl later either way."""
        answer = None
        try:
            value = checked_limit("limit", self._callables[name](group_id), error=InvalidArgument)
            answer = "-1" if value is None else str(value)
        except Exception as error:  # noqa: BLE001 - a user's callable may raise anything
            self._report(name, group_id, error)
        with self._lock:
            said = self._said.pop((name, group_id), (0.0, ""))[1] if answer is None else answer
            self._said[name, group_id] = (self._clock.monotonic(), said)
            self._said.move_to_end((name, group_id))
            while len(self._said) > REMEMBERED:
                self._said.popitem(last=False)
        return answer is not None, said

    def _report(self, name: str, group_id: GroupId, error: Exception) -> None:
        text = ": ".join(describe(error))[:300]
        now = time.monotonic()
        if now - self._logged >= LOG_EVERY:
            self._logged = now
            structlog.get_logger("fairqueue").warning("fairqueue.limit_failed", group=name, error=text)
        if self._events:
            self._events.emit(LimitFailed(group=name, group_id=group_id, error=text))
