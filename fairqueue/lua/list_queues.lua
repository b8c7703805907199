-- list_queues: queues with messages that wait, by name, a page at a time.
-- args   now options prefix after limit
--        prefix: 'tenant/' or ''; after: the last one of the page before, or ''
-- gives  tenant/queue, messages, order time of the oldest, 1 when it or its tenant is paused, of each
-- uses   shard clock
now = clock_ms(now)
local out = {}
local from = after ~= '' and '[' .. after .. '0' or prefix ~= '' and '[' .. prefix or '-'
local upto = prefix ~= '' and '(' .. string.sub(prefix, 1, -2) .. '0' or '+'      -- '0' follows '/' in bytes
for _ = 1, tonumber(limit) do
  local name = redis.call('ZRANGEBYLEX', root .. ':streams', from, upto, 'LIMIT', 0, 1)[1]
  if not name then break end
  local queue = string.match(name, '^[^/]*/[^/]*')
  local n, oldest = 0, nil
  for _, stream in ipairs(redis.call('ZRANGEBYLEX', root .. ':streams', '[' .. queue .. '/', '(' .. queue .. '0')) do
    n = n + redis.call('ZCARD', root .. ':stream:' .. stream)
    local head = tonumber(redis.call('ZRANGE', root .. ':stream:' .. stream, 0, 0, 'WITHSCORES')[2])
    if not oldest or head < oldest then oldest = head end
  end
  out[#out + 1] = queue
  out[#out + 1] = n
  out[#out + 1] = oldest
  local paused = redis.call('HMGET', root .. ':paused', queue, string.match(queue, '^[^/]*'))
  out[#out + 1] = (paused[1] or paused[2]) and 1 or 0
  from = '[' .. queue .. '0'
end
return out
