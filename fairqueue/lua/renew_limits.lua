-- renew_limits: what the callables of groups say now; more room wakes as many as it holds.
-- args   now options
-- rest   for each: group, what its callable said (see Slots.learn)
-- gives  1
-- frees  works on a full server
-- uses   shard clock record draft streams slots waiters policy living on_end pool
now = clock_ms(now)
local groups = {}
for i = rest, #ARGV, 2 do groups[#groups + 1] = ARGV[i] end
Slots.fetch(groups)
local left = 1000                              -- bounds a call: a group that could wake more is due again at once
for n, group in ipairs(groups) do
  Slots.learn(group, ARGV[rest + 2 * n - 1], now)
  left = left - Waiters.admit(group, left, now)
  if left == 0 and Waiters.pools():get(group) and not Slots.full(group) then Slots.asked():add(group, 0) end
end
finish(now)
return 1
