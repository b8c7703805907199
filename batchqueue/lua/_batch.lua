-- _batch: a batch's record, and what becomes of it when an item, its last item or its callback ends.
-- Stands in fairqueue's scripts in the place of _on_end, so an item cannot end uncounted: its end, its result
-- and the end of the batch are one script.
--   state    filling, sealed, completing, completed, completed_with_failures, cancelled, incomplete, callback_failed
--   phase    open: items may be left; call: the callback is due or runs; over
--   outcome  the state at the last item's end: sealed, cancelled or incomplete
local CALLBACKS = '~callbacks'                 -- a queue no id can name: quote() never gives it
local DATA = {'batch', 'items', 'succeeded', 'results', 'failed', 'failures', 'redriving'}
local Batch = {by_key = {}}

function Batch.of(key)                         -- nil when there is none
  local b = Batch.by_key[key]
  if b == nil then
    local hash = Draft.hash(root .. ':batch:' .. key)
    hash:fetch({'state', 'phase', 'outcome', 'gen', 'count', 'enqueued', 'succeeded', 'failed', 'cancelled',
                'created', 'concurrency', 'round', 'deadline', 'idem', 'group'})
    b = hash:get('state') and {key = key, hash = hash} or false
    Batch.by_key[key] = b
  end
  return b or nil
end

function Batch.n(b, field) return tonumber(b.hash:get(field) or 0) end
function Batch.add(b, field, n) b.hash:set(field, string.format('%.0f', Batch.n(b, field) + n)) end
function Batch.key(name, key) return root .. ':' .. name .. ':' .. key end
function Batch.due() return Draft.sorted(root .. ':batch_due') end

-- One bit for each index, read many at once and written by one command.
local Bits = {by_key = {}}

function Bits.of(name, key)
  local place = Batch.key(name, key)
  Bits.by_key[place] = Bits.by_key[place] or {key = place, known = {}}
  return Bits.by_key[place]
end

function Bits.fetch(bits, indexes)
  for i = 1, #indexes, 500 do
    local command = {'BITFIELD_RO', bits.key}
    for j = i, math.min(i + 499, #indexes) do
      for _, word in ipairs({'GET', 'u1', indexes[j]}) do command[#command + 1] = word end
    end
    for j, bit in ipairs(redis.call(unpack(command))) do bits.known[tonumber(indexes[i + j - 1])] = bit end
  end
end

function Bits.set(bits, index, bit)
  bits.known[index] = bit
  if not bits.command or #bits.command > 1500 then
    bits.command = {'BITFIELD', bits.key}
    Draft.first[#Draft.first + 1] = bits.command     -- grows until commit() sends it
  end
  for _, word in ipairs({'SET', 'u1', index, bit}) do bits.command[#bits.command + 1] = word end
end

-- The batch's own limit: set while it lives; 0 stops it, nil takes it away.
function Batch.limit(b, limit) Slots.hash():set(b.hash:get('group') .. '#', limit) end

-- All items that came are in: no more are taken, and the time for filling is over.
function Batch.seal(b, now)
  b.hash:set('state', 'sealed')
  if Batch.due():score(b.key) then Batch.due():add(b.key, now) end      -- the sweep knows what else it waits for
  Batch.check(b, now)
end

-- The callback's message: of a queue of its own, without groups, before everything else of its tenant.
function Batch.call(b, now)
  local tenant, id = string.match(b.key, '^([^/]*)/(.*)$')
  local s = Streams.of(tenant .. '/' .. CALLBACKS .. '/' .. O.callback_pool .. '/1')
  local gen, seq = b.hash:get('gen'), Record.sequence()
  Living.messages():set(s.prefix .. id, Record.write({seq = seq, order = now, enqueued = now, attempt = 1,
    deliveries = 0, state = Record.LIVE, stream = s.suffix, history = '',
    body = string.sub(gen, 1, 8) .. '\145\196' .. string.char(#gen + 2) .. '"' .. gen .. '"'}))
  Streams.add(s, seq .. id, now, now)
  Clock.living(s.pool, 1)
  Draft.count('enqueued')
  b.hash:set('phase', 'call')
end

-- Ends the batch's own work when nothing of it is left.
function Batch.check(b, now)
  local state = b.hash:get('state')
  if b.hash:get('phase') ~= 'open' or state == 'filling' then return end
  if Batch.n(b, 'succeeded') + Batch.n(b, 'failed') + Batch.n(b, 'cancelled') < Batch.n(b, 'enqueued') then return end
  b.hash:set('outcome', state)
  if state == 'sealed' then b.hash:set('state', 'completing') end
  Batch.limit(b, nil)
  Batch.due():rem(b.key)
  Batch.call(b, now)
end

function Batch.item_ended(b, index, key, how, now, note)
  if how == 'completed' then
    Batch.add(b, 'succeeded', 1)
    Bits.set(Bits.of('succeeded', b.key), tonumber(index), 1)
    if note.text and note.text ~= '' then Draft.hash(Batch.key('results', b.key)):set(index, note.text) end
  elseif how == 'discarded' then
    Batch.add(b, 'failed', 1)
    local body = Record.read(Living.messages():get(key)).body
    Draft.hash(Batch.key('failures', b.key)):set(index, struct.pack('>dHHHHH', now, note.attempt, note.deliveries,
      #note.kind, #note.reason, #note.text) .. note.kind .. note.reason .. note.text .. body)
    Draft.sorted(Batch.key('failed', b.key)):add(index, tonumber(index))
  else
    Batch.add(b, 'cancelled', 1)
  end
  Batch.check(b, now)
end

-- The callback succeeded, or is given up on: the data stays for the retention from now on.
function Batch.called(b, how, now)
  local outcome = b.hash:get('outcome')
  if how ~= 'completed' then b.hash:set('state', 'callback_failed')
  elseif outcome ~= 'sealed' then b.hash:set('state', outcome)
  else b.hash:set('state', Batch.n(b, 'failed') > 0 and 'completed_with_failures' or 'completed') end
  b.hash:set('phase', 'over')
  b.hash:set('ended', string.format('%.0f', now))
  Batch.due():add(b.key, now + O.retention)
  for _, name in ipairs(DATA) do Draft.leave('PEXPIRE', Batch.key(name, b.key), O.retention) end
  if b.hash:get('idem') then Draft.leave('PEXPIRE', b.hash:get('idem'), O.retention) end
end

-- Work for a batch that was over: it lives again.
function Batch.reopen(b)
  for _, name in ipairs(DATA) do Draft.leave('PERSIST', Batch.key(name, b.key)) end
  if b.hash:get('idem') then Draft.leave('PERSIST', b.hash:get('idem')) end
  b.hash:set('ended', nil)
  Batch.add(b, 'round', 1)
  Batch.due():rem(b.key)
end

function on_end(s, key, how, now, note)
  local id = string.sub(key, #s.prefix + 1)
  local called = s.queue == CALLBACKS
  local b = Batch.of(called and s.tenant .. '/' .. id or string.sub(s.prefix, 1, -2))
  if not b then return end
  if called then Batch.called(b, how, now) else Batch.item_ended(b, id, key, how, now, note) end
end
