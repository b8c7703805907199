-- withdraw: give one dispatched message back to its place.
-- args   now options key
-- gives  1 given back, 0 when it is not in a worker queue
-- frees  works on a full server
-- uses   shard clock record draft streams slots waiters policy living on_end pool
now = clock_ms(now)
local raw = Living.messages():get(key)
local r = raw and Record.read(raw)
if not r or r.state == Record.DEAD or Living.leases():get(key) then return 0 end
local tenant, queue, id = string.match(key, '^([^/]*)/([^/]*)/(.*)$')
local s = Streams.of(tenant .. '/' .. queue .. '/' .. r.stream)
if s.messages:score(r.seq .. id) then return 0 end
local order = Pool.withdraw(s, r.seq .. id, now)
Streams.add(s, r.seq .. id, order, now)
Draft.count('given_back')
finish(now)
return 1
