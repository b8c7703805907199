-- pause: nothing of a tenant or of a queue starts any more; what was dispatched goes back to its place.
-- args   now options what limit
--        what: t or t/q; limit: give back at most so many a call
-- gives  messages given back
-- frees  works on a full server
-- uses   shard clock record draft streams slots waiters policy living on_end pool
now, limit = clock_ms(now), tonumber(limit)
if not Slots.paused(what) then Draft.hash(root .. ':paused'):set(what, string.format('%.0f', now)) end
Draft.sorted(root .. ':resuming'):rem(what)
local n, prefix = 0, what .. '/'
for _, field in ipairs(redis.call('HKEYS', root)) do
  local pool = string.match(field, '^pool:(.*)$')
  for _, packed in ipairs(pool and redis.call('LRANGE', Pool.list(pool), 0, -1) or {}) do
    if n < limit and string.sub(cmsgpack.unpack(packed)[1], 1, #prefix) == prefix then
      Draft.leave('LREM', Pool.list(pool), 1, packed)
      Pool.give_back(packed, now)
      n = n + 1
    end
  end
end
finish(now)
return n
