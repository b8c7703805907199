-- holders: messages that hold a slot of a group: a page of those leased, or of those in one worker queue.
-- args   now options group pool cursor limit
--        pool: '' reads leases, else the worker queue; cursor: '0', or what the last page gave
-- gives  cursor of the next page ('0' when there are no more), then keys; a key may come twice
-- uses   shard
limit = tonumber(limit)
local out = {'0'}
local function hold(name, key)
  for part in string.gmatch(name, '[^/]+') do
    if part == group then out[#out + 1] = key; break end
  end
end
if pool == '' then
  local page = redis.call('HSCAN', root .. ':lease', cursor, 'COUNT', limit)
  out[1] = page[1]
  for i = 1, #page[2], 2 do hold(cmsgpack.unpack(page[2][i + 1])[2], page[2][i]) end
else
  local read = redis.call('LRANGE', root .. ':queue:' .. pool, cursor, cursor + limit - 1)
  if #read == limit then out[1] = tostring(cursor + limit) end
  for _, packed in ipairs(read) do
    local entry = cmsgpack.unpack(packed)
    hold(entry[1], string.match(entry[1], '^[^/]*/[^/]*/') .. string.sub(entry[2], 13))
  end
end
return out
