-- blocking: the full groups that hold back a queue's messages.
-- args   now options prefix
-- gives  groups, each once
-- uses   shard clock record draft streams slots waiters policy
now = clock_ms(now)
local seen, out = {}, {}
for _, name in ipairs(redis.call('ZRANGEBYLEX', root .. ':streams', '[' .. prefix, '(' .. string.sub(prefix, 1, -2) .. '0')) do
  local s = Streams.of(name)
  Slots.fetch(s.groups)
  for _, group in ipairs(s.groups) do
    if Slots.full(group) and not seen[group] then
      seen[group] = true
      out[#out + 1] = group
    end
  end
end
return out
