"""Which shard holds a tenant."""

from __future__ import annotations

from hashlib import blake2b


def shard_of(key: str, shards: int) -> int:
    """Jump consistent hash (Lamping and Veach, 2014, arXiv:1406.2294): a new shard moves only 1/n of the keys."""
    if shards == 1:
        return 0
    state = int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "big")
    bucket, jump = -1, 0
    while jump < shards:
        bucket = jump
        state = (state * 2862933555777941757 + 1) & 0xFFFFFFFFFFFFFFFF
        jump = int((bucket + 1) * ((1 << 31) / ((state >> 33) + 1)))
    return bucket
