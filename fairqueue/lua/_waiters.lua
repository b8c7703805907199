-- _waiters: streams parked on a full group, outside every scan. One freed slot wakes one stream of
-- each worker queue that waits for it: of the tenant with the lowest tag, the one with the oldest head.
Waiters = {}

local pools_of
function Waiters.pools()
  pools_of = pools_of or Draft.hash(root .. ':waiting', true)
  return pools_of
end

function Waiters.tenants(pool, group) return Draft.sorted(root .. ':waiters:' .. pool .. '/' .. group) end
function Waiters.parked(pool, group, tenant)
  return Draft.sorted(root .. ':parked:' .. pool .. '/' .. group .. '/' .. tenant)
end

local function each(list) return string.gmatch(list or '', '[^/]+') end

function Waiters.park(s, group, due)
  Streams.ready(s.pool, s.tenant):rem(s.name)
  Waiters.parked(s.pool, group, s.tenant):add(s.name, due - s.head_start)
  Waiters.tenants(s.pool, group):add(s.tenant, Policy.rank(Clock.of(s.pool), s.tenant))
  Streams.blocked():set(s.name, group)
  local pools = Waiters.pools():get(group)
  for pool in each(pools) do if pool == s.pool then return end end
  Waiters.pools():set(group, pools and pools .. '/' .. s.pool or s.pool)
end

function Waiters.unpark(s, group)
  local tenants, parked = Waiters.tenants(s.pool, group), Waiters.parked(s.pool, group, s.tenant)
  parked:rem(s.name)
  Streams.blocked():set(s.name, nil)
  if parked:first() then return end
  tenants:rem(s.tenant)
  if tenants:first() then return end
  local left = {}
  for pool in each(Waiters.pools():get(group)) do if pool ~= s.pool then left[#left + 1] = pool end end
  Waiters.pools():set(group, #left > 0 and table.concat(left, '/') or nil)
end

-- Wakes one stream a worker queue if the group has room; one whose head is not due passes it on.
function Waiters.wake(group, now)
  local pools = Waiters.pools():get(group)
  if not pools or Slots.full(group) then return end
  for pool in each(pools) do
    while true do
      local tenants = Waiters.tenants(pool, group)
      local tenant, tag = tenants:first()
      if not tenant then break end
      local s = Streams.of(Waiters.parked(pool, group, tenant):first())
      Waiters.unpark(s, group)
      if tenants:score(tenant) then tenants:add(tenant, tag + Policy.quantum(tenant)) end
      if Streams.place(s, now) then break end
    end
  end
end

-- More room wakes as many as it holds, at most `most`. Returns how many times it woke.
function Waiters.admit(group, most, now)
  local limit = Slots.limit(group)
  local room = limit and limit - Slots.used(group) or most
  local n = 0
  while n < math.min(room, most) and Waiters.pools():get(group) do
    Waiters.wake(group, now)
    n = n + 1
  end
  return n
end

-- The same in parts: what is left of the room stands in admitting, where admit goes on.
function Waiters.admitting() return Draft.sorted(root .. ':admitting') end
function Waiters.admit_some(group, room, most, now)
  local woken = Waiters.admit(group, math.min(room, most), now)
  if woken == most and room > most and Waiters.pools():get(group) then Waiters.admitting():add(group, room - most)
  elseif Waiters.admitting():score(group) then Waiters.admitting():rem(group) end
end
