-- _streams: what a stream's name says, and the place each stream stands in.
-- A name is tenant/queue/worker queue/priority[/group...], every part percent-encoded by the client.
-- A stream with messages is in exactly one place: ready (its head is due), delayed (its head lies
-- in the future) or parked (its head is due and a group of it is full).
Streams = {by_name = {}}
local Stream = {}

-- Its messages, as a set that is made when it is asked for.
function Stream.__index(s, field)
  if field ~= 'messages' then return nil end
  s.messages = Draft.sorted(root .. ':stream:' .. s.name)
  return s.messages
end

function Streams.of(name)
  local s = Streams.by_name[name]
  if s then return s end
  local tenant, queue, pool, priority, rest = string.match(name, '^([^/]*)/([^/]*)/([^/]*)/([^/]*)(.*)$')
  local prefix = tenant .. '/' .. queue .. '/'
  s = setmetatable({name = name, tenant = tenant, queue = queue, pool = pool, groups = {}, prefix = prefix,
                    suffix = string.sub(name, #prefix + 1), head_start = tonumber(priority) * (O.head_start or 0)},
                   Stream)
  if rest ~= '' then
    for group in string.gmatch(rest, '[^/]+') do s.groups[#s.groups + 1] = group end
  end
  Streams.by_name[name] = s
  return s
end

function Streams.key(s, member) return s.prefix .. string.sub(member, 13) end   -- of the message's record

function Streams.ready(pool, tenant)
  local c = Clock.of(pool)
  local set = c.ready[tenant]
  if not set then
    set = Draft.sorted(root .. ':ready:' .. pool .. '/' .. tenant)
    c.ready[tenant] = set
  end
  return set
end

function Streams.delayed(pool) return Draft.sorted(root .. ':delayed:' .. pool) end
function Streams.index() return Draft.sorted(root .. ':streams') end
function Streams.blocked() return Draft.hash(root .. ':blocked', true) end

-- Its place among the ready streams of its tenant: by the age of its head; or, in a round, behind all others
-- when it comes or was served.
function Streams.rank(s, due, stays)
  if not O.round_robin then return due - s.head_start end
  return stays and Streams.ready(s.pool, s.tenant):score(s.name) or Clock.next(s.pool) - s.head_start
end

-- Puts a stream that is not parked where its head says. Returns true when that is ready.
function Streams.place(s, now, from, served)
  local member, due = s.messages:first()
  local to = member and (due <= now and 'ready' or 'delayed')
  if from and from ~= to then
    if from == 'ready' then Streams.ready(s.pool, s.tenant):rem(s.name)
    else Streams.delayed(s.pool):rem(s.name) end
  end
  if to == 'ready' then
    Streams.ready(s.pool, s.tenant):add(s.name, Streams.rank(s, due, from == 'ready' and not served))
    Policy.join(Clock.of(s.pool), s.tenant)
  elseif to == 'delayed' then
    Streams.delayed(s.pool):add(s.name, due)
  else
    Streams.index():rem(s.name)
    Slots.count(s, -1)
  end
  return to == 'ready'
end

-- Adds a message, or puts one back, and moves the stream if its head changed.
function Streams.add(s, member, order, now)
  local head, due = s.messages:first()
  s.messages:add(member, order)
  if not head then
    Streams.index():add(s.name, 0)
    Slots.count(s, 1)
    Draft.home('HSETNX', root, 'pool:' .. s.pool, '')
    Streams.place(s, now)
  elseif s.messages:first() == member then
    local group = Streams.blocked():get(s.name)
    if group then
      Waiters.parked(s.pool, group, s.tenant):add(s.name, order - s.head_start)
    else
      Streams.place(s, now, Streams.delayed(s.pool):score(s.name) and 'delayed' or 'ready')
    end
  end
end

-- Takes a message out of its stream before it was dispatched, and mends the stream's place.
function Streams.remove(s, member, now)
  local head = s.messages:first()
  s.messages:rem(member)
  if head ~= member then return end
  local group = Streams.blocked():get(s.name)
  if group then
    Waiters.unpark(s, group)
    if not Streams.place(s, now) then Waiters.wake(group, now) end   -- what it waited for goes to the next
    return
  end
  local from = Streams.delayed(s.pool):score(s.name) and 'delayed' or 'ready'
  if not Streams.place(s, now, from) and from == 'ready' then
    for _, group in ipairs(s.groups) do Waiters.wake(group, now) end
    Streams.settle_tenant(s.pool, s.tenant)
  end
end

-- A tenant without a ready stream leaves the order of its pool.
function Streams.settle_tenant(pool, tenant)
  if not Streams.ready(pool, tenant):first() then Policy.leave(Clock.of(pool), tenant) end
end
