-- admit: go on waking what a raised limit made room for.
-- args   now options limit
--        limit: wake at most so many a call
-- gives  1 when more are to be woken, else 0
-- frees  works on a full server
-- uses   shard clock record draft streams slots waiters policy living on_end pool
now = clock_ms(now)
local group, room = Waiters.admitting():first()
if not group then return 0 end
Waiters.admit_some(group, room, tonumber(limit), now)
finish(now)
return Waiters.admitting():first() and 1 or 0
