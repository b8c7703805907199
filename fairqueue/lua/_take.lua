-- _take: turns dispatched messages into leases, each with a token of its own.
-- Returns a flat list: key, token, record, deliveries of each.
function take(entries, call_id, worker, timeout, now)
  local keys, out = {}, {}
  for i, e in ipairs(entries) do keys[i] = Streams.key(e[1], e[2]) end
  Living.messages():fetch(keys)
  for i, e in ipairs(entries) do
    local raw = Living.messages():get(keys[i])
    local attempt, deliveries = Record.counts(raw)
    local token = call_id .. '-' .. i
    Living.leases():set(keys[i], cmsgpack.pack({token, e[1].name, e[2], e[3], attempt, deliveries + 1, now, worker}))
    Living.deadlines():add(keys[i], now + timeout)
    out[#out + 1] = keys[i]
    out[#out + 1] = token
    out[#out + 1] = raw
    out[#out + 1] = deliveries + 1
  end
  return out
end

-- The leases an earlier sending of the same call was given: its reply was lost, not its effect. They are
-- among the latest deadlines, since nobody could beat them; more than LATEST leases are not looked through.
local LATEST = 10000
function taken(call_id)
  local found, out = {}, {}
  local keys = redis.call('ZREVRANGE', root .. ':leases', 0, LATEST - 1)
  Living.leases():fetch(keys)
  for _, key in ipairs(keys) do
    local packed = Living.leases():get(key)
    if packed and string.find(packed, call_id, 1, true) then
      local l = cmsgpack.unpack(packed)
      local n = string.match(l[1], '%-(%d+)$')
      if l[1] == call_id .. '-' .. (n or '') then found[#found + 1] = {tonumber(n), key, l} end
    end
  end
  table.sort(found, function(a, b) return a[1] < b[1] end)
  for _, f in ipairs(found) do
    out[#out + 1] = f[2]
    out[#out + 1] = f[3][1]
    out[#out + 1] = Living.messages():get(f[2])
    out[#out + 1] = f[3][6]
  end
  return out
end
