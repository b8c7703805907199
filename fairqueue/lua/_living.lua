-- _living: the ways a message leaves its lease or its life, shared by the scripts that settle.
Living = {}

local messages, leases, deadlines
function Living.messages()
  messages = messages or Draft.hash(root .. ':messages')
  return messages
end
function Living.leases()
  leases = leases or Draft.hash(root .. ':lease')
  return leases
end
function Living.deadlines()
  deadlines = deadlines or Draft.sorted(root .. ':leases')
  return deadlines
end

-- Reads the leases that ARGV names, from a place on and every so many words, and the slots they hold, at once.
function Living.fetch(from, stride)
  local keys, groups = {}, {}
  for i = from, #ARGV, stride do keys[#keys + 1] = ARGV[i] end
  Living.leases():fetch(keys)
  for _, key in ipairs(keys) do
    local l = Living.lease(key)
    for _, group in ipairs(l and Streams.of(l.stream).groups or {}) do groups[#groups + 1] = group end
  end
  Slots.fetch(groups)
end

local opened = {}

-- The lease that this token holds on a message, or nil when it is no longer its.
function Living.lease(key, token)
  local packed = Living.leases():get(key)
  if not packed then return nil end
  local l = opened[packed]
  if not l then
    l = {key = key}
    l.token, l.stream, l.member, l.order, l.attempt, l.deliveries, l.since = unpack(cmsgpack.unpack(packed))
    opened[packed] = l
  end
  if token and l.token ~= token then return nil end
  return l
end

-- Ends a lease: the message has its new home by now, the slots are free.
function Living.drop(l, now)
  Living.leases():set(l.key, nil)
  Living.deadlines():rem(l.key)
  Slots.free(Streams.of(l.stream), now)
end

-- Messages that ended without success and are kept nowhere, for callers whose hooks listen (O.tell: 1 ids and
-- errors, 2 the record too). tell() appends to a reply: key, why, reason, kind, text, record of each.
local gone = {}

local function discarded(key, why, raw, reason, kind, text)
  for _, part in ipairs({key, why, reason, kind, text, O.tell == 2 and raw or ''}) do gone[#gone + 1] = part end
end

function Living.tell(out)
  for _, part in ipairs(gone) do out[#out + 1] = part end
  return out
end

-- Dead letters of a tenant, and the tenants that have any by the age of the oldest (or earlier).
function Living.dead(tenant) return Draft.sorted(root .. ':dead:' .. tenant) end
function Living.letters() return Draft.sorted(root .. ':letters') end

-- A dead letter is kept no longer. why: limit or age.
function Living.evict(tenant, key, why)
  if O.tell then
    local raw = Living.messages():get(key)
    local reason, _, failures = unpack(cmsgpack.unpack(Record.read(raw).history))
    local last = failures[#failures] or {}
    discarded(key, why, raw, reason, last[2] or '', last[3] or '')
  end
  Living.dead(tenant):rem(key)
  Living.messages():set(key, nil)
  Draft.count('evicted')
end

-- A new dead letter; beyond the tenant's bound the oldest goes, ten at most where the bound was lowered.
local counted = {}
local function add_letter(tenant, key, now)
  local dead = Living.dead(tenant)
  if not Living.letters():score(tenant) then Living.letters():add(tenant, now) end
  dead:add(key, now)
  if not O.dead_limit then return end
  counted[tenant] = (counted[tenant] or redis.call('ZCARD', dead.key)) + 1
  for _ = 1, 10 do
    if counted[tenant] <= O.dead_limit then break end
    Living.evict(tenant, dead:first(), 'limit')
    counted[tenant] = counted[tenant] - 1
  end
end

-- Runs in every script that ends a message; `note` is what is known of it: attempt, deliveries, reason,
-- kind, text (of a failure, or the result); dead when its record is kept.
function Living.over(s, key, how, now, note)
  on_end(s, key, how, now, note or {})
  Clock.living(s.pool, -1)
  Draft.count(how)
  if note and note.dead then return end
  Living.messages():set(key, nil)
  if O.dedupe and O.dedupe > 0 then
    Draft.home('SET', root .. ':ended:' .. key, how, 'PX', O.dedupe)
  end
end

-- Puts a message back into its stream: at its old place, or as of `order` when one is given.
function Living.back(l, now, order, changed)
  local s = Streams.of(l.stream)
  local member, at = l.member, l.order
  if order then
    member, at = Record.sequence() .. string.sub(l.member, 13), order
  end
  if changed then
    local r = Record.read(Living.messages():get(l.key))
    r.seq, r.order = string.sub(member, 1, 12), at
    changed(r)
    Living.messages():set(l.key, Record.write(r))
  end
  Streams.add(s, member, at, now)
end

function Living.complete(l, now, result)
  local s = Streams.of(l.stream)
  Living.over(s, l.key, 'completed', now, {attempt = l.attempt, deliveries = l.deliveries, text = result})
  Living.drop(l, now)
end

function Living.retry(l, now, delay, kind, text)
  Living.back(l, now, now + delay, function(r)
    r.deliveries = l.deliveries
    Record.note(r, now, kind, text)
    r.attempt = l.attempt + 1
  end)
  Draft.count('retried')
  Living.drop(l, now)
end

-- To the tenant's dead letters; or, where those are off, gone.
function Living.bury(l, now, reason, kind, text)
  local s = Streams.of(l.stream)
  local note = {attempt = l.attempt, deliveries = l.deliveries, reason = reason, kind = kind, text = text}
  if not O.dead_letters then
    if O.tell then discarded(l.key, 'off', Living.messages():get(l.key), reason, kind, text) end
    Living.over(s, l.key, 'discarded', now, note)
  else
    local r = Record.read(Living.messages():get(l.key))
    r.deliveries, r.state = l.deliveries, Record.DEAD
    Record.note(r, now, kind, text)
    r.history = cmsgpack.pack({reason, now, cmsgpack.unpack(r.history)})
    Living.messages():set(l.key, Record.write(r))
    note.dead = true
    Living.over(s, l.key, 'dead', now, note)
    add_letter(s.tenant, l.key, now)
  end
  Living.drop(l, now)
end

function Living.release(l, now, delay)
  Living.back(l, now, now + delay, function(r) r.deliveries = l.deliveries end)
  Draft.count('released')
  Living.drop(l, now)
end

-- Back to its place as if it had never been taken: the turn is not charged either.
function Living.hand_back(l, now)
  local s = Streams.of(l.stream)
  Policy.refund(Clock.of(s.pool), s.tenant)
  Living.back(l, now)
  Draft.count('handed_back')
  Living.drop(l, now)
end

-- A lease that ran out: a failed attempt, back to its place with no backoff.
function Living.reclaim(l, now)
  Living.back(l, now, nil, nil)
  local r = Record.read(Living.messages():get(l.key))
  r.deliveries = l.deliveries
  Record.note(r, now, 'LeaseExpired', '')
  r.attempt = l.attempt + 1
  Living.messages():set(l.key, Record.write(r))
  Draft.count('reclaimed')
  Living.drop(l, now)
end

-- One settlement by name. Returns 1, or 0 when the token holds the lease no longer. A call that is
-- sent again finds its own work done: then the lease is gone, and that is success.
function Living.settle(verb, key, token, now, delay, reason, kind, text, again)
  local l = Living.lease(key, token)
  if not l then
    if not again then return 0 end
    if Living.leases():get(key) then return 0 end
    if verb == 'complete' and Living.messages():get(key) then return 0 end
    return 1
  end
  if verb == 'complete' then Living.complete(l, now, text)
  elseif verb == 'retry' then Living.retry(l, now, delay, kind, text)
  elseif verb == 'bury' then Living.bury(l, now, reason, kind, text)
  elseif verb == 'release' then Living.release(l, now, delay)
  elseif verb == 'hand_back' then Living.hand_back(l, now)
  else error('unknown settlement: ' .. tostring(verb)) end
  return 1
end
