-- redrive: dead letters back into their queues, attempt 1, history kept.
-- args   now options
-- rest   keys
-- gives  for each 1 moved, 0 when it was not dead
-- grows  refused whole when the server's memory is full
-- uses   shard clock record draft streams slots waiters policy living on_end pool
now = clock_ms(now)
local keys, out = {}, {}
for i = rest, #ARGV do keys[#keys + 1] = ARGV[i] end
Living.messages():fetch(keys)
for n, key in ipairs(keys) do
  local raw = Living.messages():get(key)
  local r = raw and Record.read(raw)
  out[n] = 0
  if r and r.state == Record.DEAD then
    local tenant, queue, id = string.match(key, '^([^/]*)/([^/]*)/(.*)$')
    local s = Streams.of(tenant .. '/' .. queue .. '/' .. r.stream)
    r.history = cmsgpack.pack(cmsgpack.unpack(r.history)[3])
    r.state, r.attempt, r.deliveries, r.seq, r.order = Record.LIVE, 1, 0, Record.sequence(), now
    Living.messages():set(key, Record.write(r))
    Living.dead(tenant):rem(key)
    if not Living.dead(tenant):first() then Living.letters():rem(tenant) end
    Streams.add(s, r.seq .. id, now, now)
    Clock.living(s.pool, 1)
    Draft.count('redriven')
    out[n] = 1
  end
end
finish(now)
return out
