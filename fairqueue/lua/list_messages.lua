-- list_messages: messages that wait in streams between two names, in their order, behind a place in it.
-- args   now options start upto streams order member limit
--        streams: read at most; order, member: of the last message seen, '' for the beginning
-- gives  the last stream read ('' when there are no more), then order time, member, state of each
-- uses   shard clock draft
now = clock_ms(now)
streams, limit = tonumber(streams), tonumber(limit)
local function behind(key)                     -- rank of the first message behind the place
  if order == '' then return 0 end
  local low, high = redis.call('ZCOUNT', key, '-inf', '(' .. order), redis.call('ZCOUNT', key, '-inf', order)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if Draft.less(member, redis.call('ZRANGE', key, middle, middle)[1]) then high = middle else low = middle + 1 end
  end
  return low
end
local names = redis.call('ZRANGEBYLEX', root .. ':streams', start, upto, 'LIMIT', 0, streams)
local found = {}
for _, name in ipairs(names) do
  local key = root .. ':stream:' .. name
  local from = behind(key)
  local read = redis.call('ZRANGE', key, from, from + limit - 1, 'WITHSCORES')
  for i = 1, #read, 2 do found[#found + 1] = {tonumber(read[i + 1]), read[i], read[i + 1]} end
end
table.sort(found, function(a, b)
  if a[1] ~= b[1] then return a[1] < b[1] end
  return Draft.less(a[2], b[2])
end)
local out = {#names == streams and names[#names] or ''}
for i = 1, math.min(limit, #found) do
  out[#out + 1] = found[i][3]
  out[#out + 1] = found[i][2]
  out[#out + 1] = found[i][1] <= now and 'waiting' or 'delayed'
end
return out
