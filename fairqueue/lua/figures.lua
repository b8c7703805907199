-- figures: what a shard counted since it was made, and what stands where now.
-- args   now options
-- gives  leases, messages in worker queues, then the fields of the root hash with their values
-- uses   shard
local fields = redis.call('HGETALL', root)
local ahead = 0
for i = 1, #fields, 2 do
  local pool = string.match(fields[i], '^pool:(.*)$')
  if pool then ahead = ahead + redis.call('LLEN', root .. ':queue:' .. pool) end
end
table.insert(fields, 1, ahead)
table.insert(fields, 1, redis.call('ZCARD', root .. ':leases'))
return fields
