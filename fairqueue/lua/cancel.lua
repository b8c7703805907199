-- cancel: end a message that nobody has taken yet.
-- args   now options key
-- gives  1 cancelled, 0 when it does not live, is leased or dead
-- frees  works on a full server
-- uses   shard clock record draft streams slots waiters policy living on_end pool
now = clock_ms(now)
local raw = Living.messages():get(key)
local r = raw and Record.read(raw)
if not r or r.state == Record.DEAD or Living.leases():get(key) then return 0 end
local tenant, queue, id = string.match(key, '^([^/]*)/([^/]*)/(.*)$')
local s = Streams.of(tenant .. '/' .. queue .. '/' .. r.stream)
if s.messages:score(r.seq .. id) then
  Streams.remove(s, r.seq .. id, now)
else
  Pool.withdraw(s, r.seq .. id, now)
end
Living.over(s, key, 'cancelled', now)
finish(now)
return 1
