-- list_tenants: tenants with messages that wait, by name, a page at a time.
-- args   now options after limit
-- gives  names
-- uses   shard
local out = {}
local from = after ~= '' and '[' .. after .. '0' or '-'
for _ = 1, tonumber(limit) do
  local name = redis.call('ZRANGEBYLEX', root .. ':streams', from, '+', 'LIMIT', 0, 1)[1]
  if not name then break end
  out[#out + 1] = string.match(name, '^[^/]*')
  from = '[' .. out[#out] .. '0'
end
return out
