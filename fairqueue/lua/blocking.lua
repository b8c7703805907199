-- blocking: the full groups that hold back messages of streams between two names.
-- args   now options start upto limit
-- gives  the last stream read ('' when there are no more), then the groups, each once
-- uses   shard clock record draft streams slots waiters policy
now = clock_ms(now)
local names = redis.call('ZRANGEBYLEX', root .. ':streams', start, upto, 'LIMIT', 0, tonumber(limit))
local seen, out = {}, {#names == tonumber(limit) and names[#names] or ''}
for _, name in ipairs(names) do
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
