-- audit: compare what must agree: slots with messages in flight, leases with deadlines, records with
-- the places that name them, streams with the index. Writes nothing.
-- args   now options
-- gives  for each finding: kind, what it is about, what is wrong
-- uses   shard clock record
local found = {}
local function finding(kind, about, text)
  for _, part in ipairs({kind, about, text}) do found[#found + 1] = part end
end
local function groups_of(name)
  local groups, i = {}, 0
  for part in string.gmatch(name, '[^/]+') do
    i = i + 1
    if i > 4 then groups[#groups + 1] = part end
  end
  return groups
end
local function live(group) return O.live and O.live[string.match(group, '^[^=]*')] end
local slots, places = {}, 0
local function hold(name)
  places = places + 1
  for _, group in ipairs(groups_of(name)) do slots[group] = (slots[group] or 0) + 1 end
end
local leases = redis.call('HGETALL', root .. ':lease')
for i = 1, #leases, 1000 do                    -- 500 at a time
  local keys = {}
  for j = i, math.min(i + 998, #leases), 2 do keys[#keys + 1] = leases[j] end
  for n, deadline in ipairs(redis.call('ZMSCORE', root .. ':leases', unpack(keys))) do
    if not deadline then finding('lease', keys[n], 'has no deadline') end
  end
end
for i = 1, #leases, 2 do
  hold(cmsgpack.unpack(leases[i + 1])[2])
  if redis.call('HEXISTS', root .. ':messages', leases[i]) == 0 then finding('lease', leases[i], 'has no message') end
end
if redis.call('ZCARD', root .. ':leases') ~= #leases / 2 then
  finding('lease', 'deadlines', redis.call('ZCARD', root .. ':leases') .. ' for ' .. #leases / 2 .. ' leases')
end
local fields = redis.call('HGETALL', root)
local ended = 0
local counter = {}
for i = 1, #fields, 2 do
  local pool = string.match(fields[i], '^pool:(.*)$')
  if pool then
    for _, packed in ipairs(redis.call('LRANGE', root .. ':queue:' .. pool, 0, -1)) do hold(cmsgpack.unpack(packed)[1]) end
  end
  counter[fields[i]] = tonumber(fields[i + 1])
end
local held, counted, said = {}, {}, {}
for group, n in pairs(slots) do held[group] = n end
local used = redis.call('HGETALL', root .. ':groups')
for i = 1, #used, 2 do
  local group, kind = string.match(used[i], '^(.-)([#?+]?)$')
  if kind == '+' and live(group) then counted[group] = tonumber(used[i + 1])
  elseif kind == '?' and live(group) then said[group] = true
  elseif kind == '' then
    if tonumber(used[i + 1]) ~= (slots[group] or 0) then
      finding('slots', group, used[i + 1] .. ' counted, ' .. (slots[group] or 0) .. ' held')
    end
    slots[group] = nil
  end
end
for group, n in pairs(slots) do finding('slots', group, '0 counted, ' .. n .. ' held') end
local streams = {}                             -- of each group whose limit a callable gives
for _, name in ipairs(redis.call('ZRANGE', root .. ':streams', 0, -1)) do
  local n = redis.call('ZCARD', root .. ':stream:' .. name)
  if n == 0 then finding('stream', name, 'is listed and empty') end
  places = places + n
  for _, group in ipairs(groups_of(name)) do
    if live(group) then streams[group] = (streams[group] or 0) + 1 end
  end
  local tenant, pool = string.match(name, '^([^/]*)/[^/]*/([^/]*)/')
  local at = 0
  if redis.call('ZSCORE', root .. ':ready:' .. pool .. '/' .. tenant, name) then
    at = at + 1
    if not redis.call('ZSCORE', root .. ':act:' .. pool, tenant) then finding('tenant', tenant, 'is ready and not in act') end
  end
  if redis.call('ZSCORE', root .. ':delayed:' .. pool, name) then at = at + 1 end
  local group = redis.call('HGET', root .. ':blocked', name)
  if group then
    at = at + 1
    if not redis.call('ZSCORE', root .. ':parked:' .. pool .. '/' .. group .. '/' .. tenant, name) then
      finding('stream', name, 'is blocked by ' .. group .. ' and not parked on it')
    end
    local pause = string.match(group, '^!(.*)$')
    if pause and redis.call('HEXISTS', root .. ':paused', pause) == 0 and not redis.call('ZSCORE', root .. ':resuming', pause) then
      finding('stream', name, 'waits for the end of a pause that is over')
    end
  end
  if at ~= 1 then finding('stream', name, 'stands in ' .. at .. ' places') end
end
for group, n in pairs(streams) do
  if not redis.call('ZSCORE', root .. ':asked', group) then finding('limits', group, 'is never asked for again') end
end
for group, n in pairs(counted) do              -- fewer is right while some are older than their callable
  if n > (streams[group] or 0) then finding('limits', group, n .. ' streams counted, ' .. (streams[group] or 0) .. ' there') end
end
for group in pairs(said) do
  if not streams[group] and not held[group] then finding('limits', group, 'is remembered and has no message') end
end
for _, group in ipairs(redis.call('ZRANGE', root .. ':asked', 0, -1)) do
  if live(group) and not streams[group] and not held[group] then
    finding('limits', group, 'is asked for and has no message')
  end
end
local count = counter
local living = (count.enqueued or 0) + (count.redriven or 0) - (count.completed or 0) - (count.discarded or 0) - (count.dead or 0)
  - (count.cancelled or 0) - (count.expired or 0) - (count.dropped or 0)
if living ~= places then finding('messages', 'books', living .. ' alive by the counters, ' .. places .. ' in a place') end
local letters = (count.dead or 0) - (count.redriven or 0) - (count.purged or 0) - (count.evicted or 0)
local listed = 0
for _, tenant in ipairs(redis.call('ZRANGE', root .. ':letters', 0, -1)) do
  local n = redis.call('ZCARD', root .. ':dead:' .. tenant)
  if n == 0 then finding('letters', tenant, 'is listed and has none') end
  listed = listed + n
end
if listed ~= letters then finding('letters', 'books', letters .. ' by the counters, ' .. listed .. ' there') end
local records = redis.call('HLEN', root .. ':messages')
if records ~= places + letters then
  finding('messages', 'records', records .. ' records for ' .. places .. ' in a place and ' .. letters .. ' dead')
end
return found
