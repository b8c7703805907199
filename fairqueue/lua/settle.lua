-- settle: end deliveries: complete, retry, bury, release or hand_back, by their lease.
-- args   now options again
-- rest   for each settlement: verb, key, token, delay, reason, kind, text
-- gives  for each 1 done, 0 when the token holds the lease no longer; then discards (see Living.tell)
-- frees  works on a full server
-- uses   shard clock record draft streams slots waiters policy living on_end pool
now = clock_ms(now)
local out = {}
Living.fetch(rest + 1, 7)
for i = rest, #ARGV, 7 do
  out[#out + 1] = Living.settle(ARGV[i], ARGV[i + 1], ARGV[i + 2], now, tonumber(ARGV[i + 3]),
    ARGV[i + 4], ARGV[i + 5], ARGV[i + 6], again == '1')
end
finish(now)
return Living.tell(out)
