-- find: where one message is.
-- args   now options key
-- gives  state, record, deadline ('' unless leased), deliveries with this one, 1 when its tenant or queue is paused;
--        nothing when it does not live
-- uses   shard clock record
now = clock_ms(now)
local raw = redis.call('HGET', root .. ':messages', key)
if not raw then return {} end
local r = Record.read(raw)
local tenant, queue = string.match(key, '^([^/]*)/([^/]*)/')
local paused = redis.call('HMGET', root .. ':paused', tenant, tenant .. '/' .. queue)
paused = (paused[1] or paused[2]) and 1 or 0
if r.state == Record.DEAD then return {'dead', raw, '', r.deliveries, paused} end
local deadline = redis.call('ZSCORE', root .. ':leases', key)
if deadline then return {'leased', raw, deadline, cmsgpack.unpack(redis.call('HGET', root .. ':lease', key))[6], paused} end
local prefix, id = string.match(key, '^([^/]*/[^/]*/)(.*)$')
if redis.call('ZSCORE', root .. ':stream:' .. prefix .. r.stream, r.seq .. id) then
  return {r.order > now and 'delayed' or 'waiting', raw, '', r.deliveries, paused}
end
return {'dispatched', raw, '', r.deliveries, paused}
