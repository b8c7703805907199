-- _shard: what every script begins with: the root of the shard's keys, the caller's options, and the
-- names of the pieces, which call each other.
local root = KEYS[1]
local O = cmsgpack.unpack(options)             -- limits (by group name), dead_letters, dedupe (ms), head_start (ms),
                                               -- round_robin (over the queues of a tenant), live (names of
                                               -- groups), dead_limit (letters of a tenant), tell (of discards),
                                               -- cluster
local clock_ms, dispatch, take, taken, finish, on_end
local Draft, Record, Streams, Slots, Waiters, Clock, Policy, Living, Pool
