-- feed: enqueue items of a batch that were taken back from its failures.
-- args   now options key stream limit
-- gives  items enqueued
-- grows  refused whole when the server's memory is full
-- uses   shard clock record draft streams slots waiters policy living on_end pool
now = clock_ms(now)
local b = Batch.of(key)
if not b then return 0 end
local s, redriving, failures = Streams.of(stream), Batch.key('redriving', key), Draft.hash(Batch.key('failures', key))
local indexes = redis.call('ZRANGE', redriving, 0, tonumber(limit) - 1)
failures:fetch(indexes)
for _, id in ipairs(indexes) do
  local raw = failures:get(id)
  local _, _, _, kind, reason, text, at = struct.unpack('>dHHHHH', raw)
  local seq, order = string.format('%012x', tonumber(id)), tonumber(b.hash:get('created'))
  Living.messages():set(s.prefix .. id, Record.write({seq = seq, order = order, enqueued = now, attempt = 1,
    deliveries = 0, state = Record.LIVE, stream = s.suffix, history = '', body = string.sub(raw, at + kind + reason + text)}))
  Streams.add(s, seq .. id, order, now)
  failures:set(id, nil)
end
if #indexes > 0 then
  Draft.leave('ZREM', redriving, unpack(indexes))
  Clock.living(s.pool, #indexes)
  Draft.count('enqueued', #indexes)
end
finish(now)
return #indexes
