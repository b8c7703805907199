-- list_dead: a page of a tenant's dead letters, the oldest first.
-- args   now options tenant after limit
-- gives  key and record of each
-- uses   shard
local keys = redis.call('ZRANGE', root .. ':dead:' .. tenant, after, after + limit - 1)
if #keys == 0 then return {} end
local raws, out = redis.call('HMGET', root .. ':messages', unpack(keys)), {}
for i, key in ipairs(keys) do
  out[#out + 1] = key
  out[#out + 1] = raws[i]
end
return out
