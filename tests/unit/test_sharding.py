"""Sharding: jump consistent hash."""

from __future__ import annotations

from collections import Counter

import pytest

from fairqueue.sharding import shard_of

KEYS = [f"tenant-{i}" for i in range(20_000)]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("acme", [0, 0, 0, 4, 26, 26]),
        ("zeta", [0, 1, 2, 4, 38, 264]),
        ("naïve-雪-😀", [0, 0, 2, 3, 43, 592]),
        ("a:b", [0, 1, 1, 1, 48, 591]),
    ],
)
def test_pinned(key: str, expected: list[int]) -> None:
    """Stored data depends on the hash: it never changes."""
    assert expected == [shard_of(key, shards) for shards in (1, 2, 3, 8, 64, 1024)]


@pytest.mark.parametrize("shards", [1, 2, 7, 16])
def test_even(shards: int) -> None:
    """Every shard gets its part of the keys."""
    counts = Counter(shard_of(key, shards) for key in KEYS)

    assert set(range(shards)) == set(counts)
    assert max(counts.values()) <= 1.15 * len(KEYS) / shards


@pytest.mark.parametrize("shards", [1, 2, 4, 9])
def test_movement(shards: int) -> None:
    """One more shard takes 1/n of the keys; no key moves between the old ones."""
    moved = [key for key in KEYS if shard_of(key, shards) != shard_of(key, shards + 1)]

    assert {shard_of(key, shards + 1) for key in moved} == {shards}
    assert len(moved) == pytest.approx(len(KEYS) / (shards + 1), rel=0.1)
