-- list_dead: a tenant's dead letters that died up to a time, the oldest first, a page at a time.
-- args   now options tenant before after limit
--        before: ms since the epoch, '' means any; after: how many to pass over
-- gives  how many there are in all, then key and record of each
-- uses   shard
local dead = root .. ':dead:' .. tenant
if before == '' then before = '+inf' end
local keys = redis.call('ZRANGEBYSCORE', dead, '-inf', before, 'LIMIT', after, limit)
local raws = #keys > 0 and redis.call('HMGET', root .. ':messages', unpack(keys)) or {}
local out = {redis.call('ZCOUNT', dead, '-inf', before)}
for i, key in ipairs(keys) do
  out[#out + 1] = key
  out[#out + 1] = raws[i]
end
return out
