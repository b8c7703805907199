-- list_leases: deliveries under way, the next to run out first.
-- args   now options after limit
-- gives  key, deadline, token, attempt, deliveries, since, worker of each
-- uses   shard
local read = redis.call('ZRANGE', root .. ':leases', after, after + limit - 1, 'WITHSCORES')
local out = {}
for i = 1, #read, 2 do
  local packed = redis.call('HGET', root .. ':lease', read[i])
  local l = packed and cmsgpack.unpack(packed) or {}
  for _, part in ipairs({read[i], read[i + 1], l[1], l[5], l[6], l[7], l[8]}) do out[#out + 1] = part end
end
return out
