"""Which shard holds a tenant."""

from __future__ import annotations

from hashlib import blake2b


def shard_of(key: str, shards: int) -> int:
    """The shard, from 0, of a shard key: a new shard takes 1/n of the keys and moves no other.

    Jump consistent hash (Lamping and Veach, "A Fast, Minimal Memory, Consistent Hash Algorithm", 2014,
    arXiv:1406.2294) over the first 64 bits of BLAKE2b. Stored data depends on it: it must never change.

    Args:
        key: a checked id.
        shards: how many there are, at least 1.
    """
    if shards == 1:
        return 0
    state = int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "big")
    shard, jump = -1, 0
    while jump < shards:
        shard = jump
        state = (state * 2862933555777941757 + 1) & 0xFFFF_FFFF_FFFF_FFFF
        jump = int((shard + 1) * ((1 << 31) / ((state >> 33) + 1)))
    return shard
