-- initialize: make a batch, or find the one that was made by the same call before.
-- args   now options key gen count metadata concurrency group fill idem print
--        count: '' not known yet; concurrency: '' no limit of its own; fill: ms for filling, '' for ever;
--        idem: key of the idempotency key, '' none; print: fingerprint of the parameters
-- rest   fields of the record
-- gives  made, same or other (parameters), the key of the batch that is there, and those fields of it
-- grows  refused whole when the server's memory is full
-- uses   shard clock record draft streams slots waiters policy living on_end pool
now = clock_ms(now)
if idem ~= '' then
  local known = redis.call('GET', root .. ':idem:' .. idem)
  if known and Batch.of(known) then key = known end
end
local b = Batch.of(key)
local function record() return redis.call('HMGET', root .. ':batch:' .. key, unpack(ARGV, rest)) end
if b then return {b.hash:get('print') == print and 'same' or 'other', key, record()} end
local hash = Draft.hash(root .. ':batch:' .. key)
for field, value in pairs({state = 'filling', phase = 'open', gen = gen, count = count, metadata = metadata,
                           concurrency = concurrency, group = group, print = print}) do hash:set(field, value) end
hash:set('created', string.format('%.0f', now))
if fill ~= '' then hash:set('deadline', string.format('%.0f', now + fill)) end
if idem ~= '' then
  hash:set('idem', root .. ':idem:' .. idem)
  Draft.home('SET', root .. ':idem:' .. idem, key)
end
b = {key = key, hash = hash}
Batch.by_key[key] = b
Draft.sorted(root .. ':batches'):add(key, 0)
if fill ~= '' then Batch.due():add(key, now + fill) else Batch.due():rem(key) end
if concurrency ~= '' then Batch.limit(b, concurrency) end
if count == '0' then Batch.seal(b, now) end
finish(now)
return {'made', key, record()}
