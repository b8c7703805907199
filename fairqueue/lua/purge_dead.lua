-- purge_dead: delete a tenant's dead letters up to a time of death.
-- args   now options tenant before limit
--        before: ms since the epoch, '' means now; limit: at most so many a call
-- gives  letters deleted
-- frees  works on a full server
-- uses   shard clock
now = clock_ms(now)
local dead = root .. ':dead:' .. tenant
local keys = redis.call('ZRANGEBYSCORE', dead, '-inf', before == '' and now or before, 'LIMIT', 0, tonumber(limit))
if #keys > 0 then
  redis.call('HDEL', root .. ':messages', unpack(keys))
  redis.call('ZREM', dead, unpack(keys))
  if redis.call('EXISTS', dead) == 0 then redis.call('ZREM', root .. ':letters', tenant) end
  redis.call('HINCRBY', root, 'purged', #keys)
end
return #keys
