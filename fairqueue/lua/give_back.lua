-- give_back: return to their places the dispatched messages that nobody took in time, or (clear) all.
-- args   now options pool age limit
--        age: ms an entry may have stood there; -1 takes all
-- gives  messages given back
-- frees  works on a full server
-- uses   shard clock record draft streams slots waiters policy living on_end pool
now = clock_ms(now)
age = tonumber(age)
local n = 0
for _, packed in ipairs(redis.call('LRANGE', Pool.list(pool), 0, tonumber(limit) - 1)) do
  if age >= 0 and cmsgpack.unpack(packed)[4] + age > now then break end
  Pool.give_back(packed, now)
  n = n + 1
end
if n > 0 then
  Draft.leave('LTRIM', Pool.list(pool), n, -1)
  if age >= 0 then Clock.of(pool).hash:set('asked', '0') end             -- not filled again until someone asks
end
finish(now)
return n
