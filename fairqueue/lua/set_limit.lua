-- set_limit: the limit of one group, from now on; more room wakes as many as it holds, the first 500 at once.
-- args   now options group limit
--        limit: '' back to the default, '-1' unlimited
-- gives  1 when more are to be woken (see admit), else 0
-- frees  works on a full server
-- uses   shard clock record draft streams slots waiters policy living on_end pool
now = clock_ms(now)
Slots.hash():set(group .. '#', limit ~= '' and limit or nil)
local most = Slots.limit(group)
Waiters.admit_some(group, most and most - Slots.used(group) or 1e15, 500, now)
finish(now)
return Waiters.admitting():first() and 1 or 0
