-- begin_redrive: up to which time of death a call that redrives all letters of a tenant takes them. A call
-- that begins while others go on takes what they take: what they moved and died again is not moved twice.
-- args   now options tenant run ttl
--        run: of the caller; ttl: ms until a caller that was not heard of again counts as gone
-- gives  ms since the epoch
-- uses   shard clock
now = clock_ms(now)
local key = root .. ':redriving:' .. tenant
local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
local since = first[2] or string.format('%.0f', now)
redis.call('ZADD', key, 'NX', since, run)
redis.call('PEXPIRE', key, ttl)
return tonumber(since)
