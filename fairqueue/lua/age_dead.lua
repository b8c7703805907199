-- age_dead: dead letters that are older than an age are kept no longer, whoever's they are.
-- args   now options age limit
--        age: ms; limit: look at so many a call
-- gives  letters gone, 1 when there may be more, then discards (see Living.tell)
-- frees  works on a full server
-- uses   shard clock record draft streams slots waiters policy living on_end pool
now = clock_ms(now)
local n, more, letters = 0, 0, Living.letters()
for i = 1, tonumber(limit) do
  local tenant, since = letters:first()
  if not tenant or since + age > now then break end
  local key, died = Living.dead(tenant):first()
  if key and died + age <= now then
    Living.evict(tenant, key, 'age')
    n = n + 1
  end
  local oldest, at = Living.dead(tenant):first()
  if oldest then letters:add(tenant, at) else letters:rem(tenant) end
  if i == tonumber(limit) then more = 1 end
end
finish(now)
return Living.tell({n, more})
