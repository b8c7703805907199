-- holders: messages that hold a slot of a group, dispatched or leased.
-- args   now options group
-- gives  keys
-- uses   shard
local out = {}
local function hold(name, key)
  for part in string.gmatch(name, '[^/]+') do
    if part == group then out[#out + 1] = key; break end
  end
end
local leases = redis.call('HGETALL', root .. ':lease')
for i = 1, #leases, 2 do hold(cmsgpack.unpack(leases[i + 1])[2], leases[i]) end
local fields = redis.call('HKEYS', root)
for _, field in ipairs(fields) do
  local pool = string.match(field, '^pool:(.*)$')
  if pool then
    for _, packed in ipairs(redis.call('LRANGE', root .. ':queue:' .. pool, 0, -1)) do
      local entry = cmsgpack.unpack(packed)
      hold(entry[1], string.match(entry[1], '^[^/]*/[^/]*/') .. string.sub(entry[2], 13))
    end
  end
end
return out
