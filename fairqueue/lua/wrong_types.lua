-- wrong_types: keys of a shard that hold another type than they should, as far as their names can be derived.
-- args   now options limit
--        limit: streams looked at
-- gives  key, its type, the type it should have, of at most 10
-- uses   shard
local out = {}
local function is(kind, name)
  local found = redis.call('TYPE', root .. name).ok
  if found == 'none' or found == kind then return found == kind end
  if #out < 30 then
    out[#out + 1] = root .. name
    out[#out + 1] = found
    out[#out + 1] = kind
  end
end
for _, name in ipairs({':messages', ':groups', ':waiting', ':blocked', ':weights', ':lease'}) do is('hash', name) end
is('zset', ':leases')
if is('hash', '') then
  for _, field in ipairs(redis.call('HKEYS', root)) do
    local pool = string.match(field, '^pool:(.*)$')
    if pool then
      for _, part in ipairs({'delayed', 'act', 'lane', 'tags', 'idle'}) do is('zset', ':' .. part .. ':' .. pool) end
      is('hash', ':clock:' .. pool)
      is('list', ':queue:' .. pool)
    end
  end
end
if is('zset', ':streams') then
  for _, s in ipairs(redis.call('ZRANGE', root .. ':streams', 0, tonumber(limit) - 1)) do
    local tenant, pool = string.match(s, '^([^/]*)/[^/]*/([^/]*)')
    is('zset', ':stream:' .. s)
    is('zset', ':ready:' .. pool .. '/' .. tenant)
    is('zset', ':dead:' .. tenant)
  end
end
return out
