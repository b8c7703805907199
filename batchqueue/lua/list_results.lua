-- list_results: results of items that succeeded, by index, a page of them.
-- args   now options key after limit
-- gives  index and result ('' none) of each
-- uses   shard
local out, at, bits = {}, tonumber(after) + 1, root .. ':succeeded:' .. key
while #out < 2 * limit do
  at = redis.call('BITPOS', bits, 1, at, -1, 'BIT')
  if at < 0 then break end
  out[#out + 1] = at
  out[#out + 1] = redis.call('HGET', root .. ':results:' .. key, tostring(at)) or ''
  at = at + 1
end
return out
