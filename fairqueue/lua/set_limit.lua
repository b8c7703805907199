-- set_limit: the limit of one group, from now on; more room wakes as many as it holds.
-- args   now options group limit
--        limit: '' back to the default, '-1' unlimited
-- gives  1
-- frees  works on a full server
-- uses   shard clock record draft streams slots waiters policy living on_end pool
now = clock_ms(now)
Slots.hash():set(group .. '#', limit ~= '' and limit or nil)
local room = Slots.limit(group)
room = room and room - Slots.used(group) or 10000
for _ = 1, math.min(room, 10000) do
  if not Waiters.pools():get(group) then break end
  Waiters.wake(group, now)
end
finish(now)
return 1
