-- _policy_fair: self-clocked fair queueing by virtual finish tags (Golestani, INFOCOM 1994) with an
-- express lane for tenants at or under their share. State is kept for each worker queue:
--   act   eligible tenant -> finish tag of its next message
--   lane  those of them not served since they came with no more than their share, first come first
--   tags  last finish tag of a tenant outside act, kept only while it lies ahead of the clock
--   clock v: virtual time, turn: 1 after a pick from the lane, seq: of the lane, n: living messages,
--         asked: 1 when workers ask for messages, 0 when nobody took what was dispatched,
--         off: what lies between v and the clocks of other shards, idle: 1 when nothing was left ready
Clock = {by_pool = {}}

function Clock.of(pool)
  local c = Clock.by_pool[pool]
  if c then return c end
  local hash = Draft.hash(root .. ':clock:' .. pool)
  hash:fetch({'v', 'turn', 'seq', 'n', 'asked', 'off', 'idle'})
  c = {pool = pool, hash = hash, ready = {}, v = tonumber(hash:get('v') or 0), turn = tonumber(hash:get('turn') or 0),
       seq = tonumber(hash:get('seq') or 0), n = tonumber(hash:get('n') or 0),
       act = Draft.sorted(root .. ':act:' .. pool, 16), lane = Draft.sorted(root .. ':lane:' .. pool, 16),
       tags = Draft.sorted(root .. ':tags:' .. pool)}
  c.old = {c.v, c.turn, c.seq, c.n}
  Clock.by_pool[pool] = c
  return c
end

-- The clock on the scale of all shards: one that was idle is lifted to the floor its caller knows of.
--   was: its virtual time before the call; served: messages the call gave
function Clock.across(c, floor, was, served)
  local off = tonumber(c.hash:get('off') or 0)
  local idle = c.act:first() == nil
  if floor ~= '' then
    if c.hash:get('idle') ~= '0' and (served > 0 or not idle) then
      off = math.max(off, tonumber(floor) - was)
      c.hash:set('off', string.format('%.17g', off))
    end
    local now_idle = idle and '1' or '0'
    if c.hash:get('idle') ~= now_idle then c.hash:set('idle', now_idle) end
  end
  return string.format('%.17g', c.v + off)
end

-- A number that only grows while a worker queue has messages: who comes later stands behind.
function Clock.next(pool)
  local c = Clock.of(pool)
  c.seq = c.seq + 1
  return c.seq
end

function Clock.living(pool, n)
  local c = Clock.of(pool)
  c.n = c.n + n
end

-- Writes the clocks that moved; a worker queue without living messages starts over from nothing.
function Clock.save()
  for pool, c in pairs(Clock.by_pool) do
    if c.n == 0 then
      Draft.leave('DEL', root .. ':clock:' .. pool, root .. ':tags:' .. pool, root .. ':lane:' .. pool)
    else
      if c.v ~= c.old[1] then
        c.hash:set('v', string.format('%.17g', c.v))
        Draft.leave('ZREMRANGEBYSCORE', root .. ':tags:' .. pool, '-inf', string.format('%.17g', c.v))
      end
      if c.turn ~= c.old[2] then c.hash:set('turn', tostring(c.turn)) end
      if c.seq ~= c.old[3] then c.hash:set('seq', string.format('%.0f', c.seq)) end
      if c.n ~= c.old[4] then c.hash:set('n', string.format('%.0f', c.n)) end
    end
  end
end

Policy = {}
local weights

function Policy.quantum(tenant)                -- what one message adds to its tenant's tag
  weights = weights or Draft.hash(root .. ':weights', true)
  return 1 / tonumber(weights:get(tenant) or 1)
end

function Policy.join(c, tenant)
  if c.act:score(tenant) then return end
  local tag = c.tags:score(tenant)
  if tag then c.tags:rem(tenant) end
  if not tag or tag <= c.v then
    c.lane:add(tenant, Clock.next(c.pool))
  end
  c.act:add(tenant, math.max(tag or c.v, c.v) + Policy.quantum(tenant))
end

function Policy.leave(c, tenant)
  local tag = c.act:score(tenant)
  if not tag then return end
  c.act:rem(tenant)
  c.lane:rem(tenant)
  tag = tag - Policy.quantum(tenant)
  if tag > c.v then c.tags:add(tenant, tag) end
end

-- The tenant to serve, and whether it came through the lane, which gets every second pick at most.
function Policy.pick(c)
  if c.turn == 0 then
    local tenant = c.lane:first()
    if tenant then return tenant, true end
  end
  return c.act:first(), false
end

function Policy.charge(c, tenant, via_lane)
  local tag = c.act:score(tenant)
  if via_lane then c.turn = 1
  else
    c.turn = 0
    c.v = math.max(c.v, tag)
  end
  c.lane:rem(tenant)
  c.act:add(tenant, tag + Policy.quantum(tenant))
end

-- A message that goes back unstarted is not paid for.
function Policy.refund(c, tenant)
  local quantum = Policy.quantum(tenant)
  local tag = c.act:score(tenant)
  if tag then
    c.act:add(tenant, math.max(tag - quantum, c.v))
  else
    tag = c.tags:score(tenant)
    if tag and tag - quantum > c.v then c.tags:add(tenant, tag - quantum)
    elseif tag then c.tags:rem(tenant) end
  end
end

function Policy.rank(c, tenant)                -- of a tenant that waits for a group
  return math.max(c.act:score(tenant) - Policy.quantum(tenant), c.v)
end
