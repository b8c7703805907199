-- list_failures: items that failed for good, by index, a page of them.
-- args   now options key after limit
-- gives  index and record of each
-- uses   shard
local out = {}
for _, index in ipairs(redis.call('ZRANGE', root .. ':failed:' .. key, '(' .. after, '+inf', 'BYSCORE',
                                  'LIMIT', 0, tonumber(limit))) do
  out[#out + 1] = index
  out[#out + 1] = redis.call('HGET', root .. ':failures:' .. key, index)
end
return out
