-- expired: leases past their deadline, for the reclaimer to judge. Writes nothing.
-- args   now options limit
-- gives  key, token, attempt, deliveries of each
-- uses   shard clock record draft streams slots waiters policy living on_end
now = clock_ms(now)
local keys = redis.call('ZRANGEBYSCORE', root .. ':leases', '-inf', now, 'LIMIT', 0, tonumber(limit))
Living.leases():fetch(keys)
local out = {}
for _, key in ipairs(keys) do
  local l = Living.lease(key)
  if l then
    out[#out + 1] = key
    out[#out + 1] = l.token
    out[#out + 1] = l.attempt
    out[#out + 1] = l.deliveries
  end
end
return out
