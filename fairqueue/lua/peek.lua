-- peek: the next messages of a queue in their order, without touching them.
-- args   now options prefix limit
-- gives  state, key, record of each
-- uses   shard clock
now = clock_ms(now)
limit = tonumber(limit)
local found = {}
for _, name in ipairs(redis.call('ZRANGEBYLEX', root .. ':streams', '[' .. prefix, '(' .. string.sub(prefix, 1, -2) .. '0')) do
  local read = redis.call('ZRANGE', root .. ':stream:' .. name, 0, limit - 1, 'WITHSCORES')
  for i = 1, #read, 2 do found[#found + 1] = {tonumber(read[i + 1]), read[i]} end
end
table.sort(found, function(a, b)
  if a[1] ~= b[1] then return a[1] < b[1] end
  return a[2] < b[2]
end)
local out = {}
for i = 1, math.min(limit, #found) do
  local key = prefix .. string.sub(found[i][2], 13)
  out[#out + 1] = found[i][1] <= now and 'waiting' or 'delayed'
  out[#out + 1] = key
  out[#out + 1] = redis.call('HGET', root .. ':messages', key)
end
return out
