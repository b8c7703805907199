-- add_items: put items of a batch in: marked and enqueued, each index once.
-- args   now options key gen call_id stream
-- rest   for each item: index, body
-- gives  unknown; or the state, then for each item 1 it is in now, 0 it was in already,
--        -1 the batch takes no more, -2 the index is beyond the item count
-- grows  refused whole when the server's memory is full
-- uses   shard clock record draft streams slots waiters policy living on_end pool
now = clock_ms(now)
local b = Batch.of(key)
if not b or b.hash:get('gen') ~= gen then return {'unknown'} end
local s, bits, indexes, keys = Streams.of(stream), Bits.of('items', key), {}, {}
for i = rest, #ARGV, 2 do indexes[#indexes + 1] = ARGV[i] end
Bits.fetch(bits, indexes)
for _, index in ipairs(indexes) do
  if bits.known[tonumber(index)] == 1 then keys[#keys + 1] = s.prefix .. index end
end
Living.messages():fetch(keys)
local filling, count = b.hash:get('state') == 'filling', tonumber(b.hash:get('count'))
local created, mine, n = tonumber(b.hash:get('created')), {}, 0
local out = {b.hash:get('state')}
for i, id in ipairs(indexes) do
  local index = tonumber(id)
  local at = s.prefix .. id
  if bits.known[index] == 1 then
    local there = not mine[index] and Living.messages():get(at)
    out[#out + 1] = there and string.sub(Record.read(there).body, 1, #call_id) == call_id and 1 or 0
  elseif not filling then
    out[#out + 1] = -1
  elseif count and index >= count then
    out[#out + 1] = -2
  else
    local seq = string.format('%012x', index)
    Bits.set(bits, index, 1)
    Living.messages():set(at, Record.write({seq = seq, order = created, enqueued = now, attempt = 1, deliveries = 0,
      state = Record.LIVE, stream = s.suffix, history = '', body = ARGV[rest + 2 * i - 1]}))
    Streams.add(s, seq .. id, created, now)
    mine[index], n, out[#out + 1] = true, n + 1, 1
  end
end
if n > 0 then
  Clock.living(s.pool, n)
  Draft.count('enqueued', n)
  Batch.add(b, 'enqueued', n)
  if count and Batch.n(b, 'enqueued') == count then Batch.seal(b, now) end
end
finish(now)
return out
