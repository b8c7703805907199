-- purge_queue: end messages that wait in the queues whose streams begin with a prefix.
-- args   now options prefix limit
--        limit: at most so many a call
-- gives  messages ended
-- frees  works on a full server
-- uses   shard clock record draft streams slots waiters policy living on_end pool
now = clock_ms(now)
local left = tonumber(limit)
for _, name in ipairs(redis.call('ZRANGEBYLEX', root .. ':streams', '[' .. prefix, '(' .. string.sub(prefix, 1, -2) .. '0',
                                 'LIMIT', 0, left)) do
  local s = Streams.of(name)
  while left > 0 do
    local member = s.messages:first()
    if not member then break end
    Streams.remove(s, member, now)
    Living.over(s, Streams.key(s, member), 'dropped', now)
    left = left - 1
  end
end
finish(now)
return limit - left
