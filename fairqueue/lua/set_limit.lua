-- set_limit: the limit of one group, from now on; more room wakes as many as it holds.
-- args   now options group limit
--        limit: '' back to the default, '-1' unlimited
-- gives  1
-- frees  works on a full server
-- uses   shard clock record draft streams slots waiters policy living on_end pool
now = clock_ms(now)
Slots.hash():set(group .. '#', limit ~= '' and limit or nil)
Waiters.admit(group, 10000, now)
finish(now)
return 1
