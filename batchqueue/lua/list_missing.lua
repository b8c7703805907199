-- list_missing: indexes below the item count that are not in, a page of them.
-- args   now options key after below limit
-- gives  indexes
-- uses   shard
local items, out, at = root .. ':items:' .. key, {}, tonumber(after) + 1
local size = redis.call('STRLEN', items) * 8
while #out < tonumber(limit) do
  if at < size then
    local clear = redis.call('BITPOS', items, 0, at, -1, 'BIT')
    at = clear >= 0 and clear or size
  end
  if at >= tonumber(below) then break end
  out[#out + 1] = at
  at = at + 1
end
return out
