-- dispatch: move messages to a worker queue, ahead of those who take them.
-- args   now options pool n depth
-- gives  messages moved, ms until the earliest delayed stream is due (or -1)
-- frees  works on a full server
-- uses   shard clock record draft streams slots waiters policy living on_end pool dispatch
now = clock_ms(now)
local room = math.min(tonumber(n), tonumber(depth) - redis.call('LLEN', Pool.list(pool)))
local asked = Clock.of(pool).hash:get('asked')
if asked == '0' then room = 0
elseif asked == '1' then room = math.min(room, redis.call('ZCOUNT', Pool.idle(pool), now, '+inf')) end
local moved = dispatch(pool, math.max(room, 0), now)
Pool.push(pool, moved, now)
finish(now)
local name, due = Streams.delayed(pool):first()
return {#moved, name and math.max(due - now, 0) or -1}
