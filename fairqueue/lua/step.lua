-- step: a worker's main call: settle what finished, dispatch by policy, take what is asked for.
-- args   now options again call_id pool want timeout worker channel look floor
--        channel, look: who to wake when there was too little, and in how many ms it looks by itself
--        floor: the lowest clock of other shards that have work (-1 none has, '' there are none)
-- rest   for each settlement: verb, key, token, delay, reason, kind, text
-- gives  settled (1 or 0 each, then discards: see Living.tell), leases (key, token, record, deliveries each),
--        1 when more is ready, ms until the earliest due time (or -1), the shard's clock
-- frees  works on a full server
-- uses   shard clock record draft streams slots waiters policy living on_end pool dispatch take
now = clock_ms(now)
local settled = {}
Living.fetch(rest + 1, 7)
for i = rest, #ARGV, 7 do
  settled[#settled + 1] = Living.settle(ARGV[i], ARGV[i + 1], ARGV[i + 2], now, tonumber(ARGV[i + 3]),
    ARGV[i + 4], ARGV[i + 5], ARGV[i + 6], again == '1')
end
want = tonumber(want)
local leases, was = {}, Clock.of(pool).v
if want > 0 then
  local clock = Clock.of(pool).hash
  if clock:get('asked') ~= '1' then clock:set('asked', '1') end
  if again == '1' then leases = taken(call_id) end
  if #leases == 0 then
    local entries = Pool.pop(pool, want)
    for _, e in ipairs(dispatch(pool, want - #entries, now)) do entries[#entries + 1] = e end
    leases = take(entries, call_id, worker, tonumber(timeout), now)
  end
end
local c = Clock.of(pool)
local clock = Clock.across(c, want > 0 and floor or '', was, #leases / 4)
Clock.save()
Slots.save()
Draft.commit()
local more, wait = 0, -1
if want > 0 then
  if #leases / 4 < want and not c.act:first() then
    if channel ~= '' then
      redis.call('ZADD', Pool.idle(pool), now + tonumber(look), channel)
      redis.call('PEXPIRE', Pool.idle(pool), tonumber(look) + 1000)
    end
  end
  if c.act:first() then more = 1 end
  local name, due = Streams.delayed(pool):first()
  if name then wait = math.max(due - now, 0) end
end
Pool.wake(now)
return {Living.tell(settled), leases, more, wait, clock}
