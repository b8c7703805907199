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
for n, group in ipairs(groups) do
  Slots.learn(group, ARGV[rest + 2 * n - 1], now)
  Waiters.admit(group, 1000, now)
end
finish(now)
return 1
