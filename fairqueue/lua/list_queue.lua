-- list_queue: messages dispatched to a worker queue, in the order they will be taken.
-- args   now options pool limit
-- gives  keys
-- uses   shard
local out = {}
for _, packed in ipairs(redis.call('LRANGE', root .. ':queue:' .. pool, 0, limit - 1)) do
  local entry = cmsgpack.unpack(packed)
  out[#out + 1] = string.match(entry[1], '^[^/]*/[^/]*/') .. string.sub(entry[2], 13)
end
return out
