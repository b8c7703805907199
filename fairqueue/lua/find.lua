-- find: where one message is.
-- args   now options key
-- gives  state, record, deadline ('' unless leased), deliveries with this one; nothing when it does not live
-- uses   shard clock record
now = clock_ms(now)
local raw = redis.call('HGET', root .. ':messages', key)
if not raw then return {} end
local r = Record.read(raw)
if r.state == Record.DEAD then return {'dead', raw, '', r.deliveries} end
local deadline = redis.call('ZSCORE', root .. ':leases', key)
if deadline then return {'leased', raw, deadline, cmsgpack.unpack(redis.call('HGET', root .. ':lease', key))[6]} end
local prefix, id = string.match(key, '^([^/]*/[^/]*/)(.*)$')
if redis.call('ZSCORE', root .. ':stream:' .. prefix .. r.stream, r.seq .. id) then
  return {r.order > now and 'delayed' or 'waiting', raw, '', r.deliveries}
end
return {'dispatched', raw, '', r.deliveries}
