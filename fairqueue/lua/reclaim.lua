-- reclaim: end leases that ran out, each only if the same token still holds it past its deadline.
-- args   now options
-- rest   for each lease: key, token, reason ('' puts it back to its place, else it is dead)
-- gives  for each 1 reclaimed, 0 when it was beaten, settled or taken anew; then discards (see Living.tell)
-- frees  works on a full server
-- uses   shard clock record draft streams slots waiters policy living on_end pool
now = clock_ms(now)
local out = {}
for i = rest, #ARGV, 3 do
  local l = Living.lease(ARGV[i], ARGV[i + 1])
  local deadline = l and Living.deadlines():score(l.key)
  if l and deadline and deadline <= now then
    if ARGV[i + 2] == '' then Living.reclaim(l, now)
    else Living.bury(l, now, ARGV[i + 2], 'LeaseExpired', '') end
    out[#out + 1] = 1
  else
    out[#out + 1] = 0
  end
end
finish(now)
return Living.tell(out)
