-- heartbeat: move the deadlines of leases out to a visibility timeout from now; never in.
-- args   now options timeout
-- rest   for each lease: key, token
-- gives  for each 1 beaten, 0 when the token holds the lease no longer
-- frees  works on a full server
-- uses   shard clock record draft streams slots waiters policy living on_end
now = clock_ms(now)
local keys, out = {}, {}
for i = rest, #ARGV, 2 do keys[#keys + 1] = ARGV[i] end
Living.leases():fetch(keys)
for i = rest, #ARGV, 2 do
  out[#out + 1] = Living.lease(ARGV[i], ARGV[i + 1]) and 1 or 0
  if out[#out] == 1 then redis.call('ZADD', root .. ':leases', 'XX', 'GT', now + tonumber(timeout), ARGV[i]) end
end
return out
