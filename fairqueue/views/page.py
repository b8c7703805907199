"""Listings, a page at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

import attrs

from fairqueue.durations import whole
from fairqueue.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

MAX_PAGE = 500
T = TypeVar("T")


@attrs.frozen
class Page(Generic[T]):
    """Part of a listing; *cursor* gets the next part, None at its end."""

    items: list[T]
    cursor: str | None

    def __iter__(self) -> Iterator[T]:
        """The items of this page."""
        return iter(self.items)

    def __getitem__(self, i: int) -> T:
        """One item of this page."""
        return self.items[i]

    def __len__(self) -> int:
        """Items of this page."""
        return len(self.items)


def page_size(limit: object) -> int:
    """The size of a page, 1 to 500.

    Raises:
        InvalidArgument: anything else.
    """
    return whole("limit", limit, minimum=1, maximum=MAX_PAGE, error=InvalidArgument)


def paged(
    shards: Sequence[int], cursor: str | None, limit: int, read: Callable[[int, str, int], list[tuple[str, T]]]
) -> Page[T]:
    """Walk shard by shard; the cursor names the shard and the place in it."""
    page_size(limit)
    found: list[T] = []
    place, _, after = (cursor or "0:").partition(":")
    if not place.isdecimal():
        raise InvalidArgument(f"cursor={cursor!r} is none that a page gave")
    for i in range(int(place), len(shards)):
        rows = read(shards[i], after, limit - len(found))
        found += [item for _, item in rows]
        if len(found) >= limit:
            return Page(found, f"{i}:{rows[-1][0]}")
        after = ""
    return Page(found, None)
