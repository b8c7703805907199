-- list_queues: queues with messages that wait, by name, a page at a time.
-- args   now options start upto limit
--        start, upto: bounds of stream names, as ZRANGEBYLEX takes them; limit: streams read at most
-- gives  the last stream read ('' when there are no more), then tenant/queue, messages, order time of the
--        oldest, 1 when it or its tenant is paused, of each; the last queue may go on in the next page
-- uses   shard
local out, at = {''}, 0
local names = redis.call('ZRANGEBYLEX', root .. ':streams', start, upto, 'LIMIT', 0, tonumber(limit))
for _, name in ipairs(names) do
  local key = root .. ':stream:' .. name
  local queue, tenant = string.match(name, '^(([^/]*)/[^/]*)')
  local n, oldest = redis.call('ZCARD', key), redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
  if at > 0 and out[at] == queue then
    out[at + 1] = out[at + 1] + n
    if tonumber(oldest) < tonumber(out[at + 2]) then out[at + 2] = oldest end
  else
    local paused = redis.call('HMGET', root .. ':paused', queue, tenant)
    at = #out + 1
    out[at], out[at + 1], out[at + 2], out[at + 3] = queue, n, oldest, (paused[1] or paused[2]) and 1 or 0
  end
end
if #names == tonumber(limit) then out[1] = names[#names] end
return out
