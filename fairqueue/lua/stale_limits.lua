-- stale_limits: groups whose callable was asked too long ago, or never; the longest ago first. For a second
-- they are the caller's: nobody else is told of them.
-- args   now options ttl limit
-- gives  ms until the next one is due (or -1), then groups
-- frees  works on a full server
-- uses   shard clock
now, ttl = clock_ms(now), tonumber(ttl)
local asked = root .. ':asked'
local out = redis.call('ZRANGEBYSCORE', asked, '-inf', now - ttl, 'LIMIT', 0, limit)
for _, group in ipairs(out) do redis.call('ZADD', asked, 'XX', now - ttl + math.min(ttl, 1000), group) end
local next_one = redis.call('ZRANGE', asked, 0, 0, 'WITHSCORES')[2]
table.insert(out, 1, next_one and math.max(tonumber(next_one) + ttl - now, 0) or -1)
return out
