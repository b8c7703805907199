-- _pool: a worker queue: the list of messages dispatched ahead of its workers, and those who wait.
-- An entry is {stream, member, order, when}. A waiting process stands in idle:<pool> with the channel
-- that wakes it, until the time of its own next look.
Pool = {}

function Pool.list(pool) return root .. ':queue:' .. pool end
function Pool.idle(pool) return root .. ':idle:' .. pool end

function Pool.push(pool, entries, now)
  if #entries == 0 then return end
  local command = {'RPUSH', Pool.list(pool)}
  for _, e in ipairs(entries) do command[#command + 1] = cmsgpack.pack({e[1].name, e[2], e[3], now}) end
  Draft.home(unpack(command))
end

-- The first n entries, planned to leave the list.
function Pool.pop(pool, n)
  local out = {}
  if n < 1 then return out end
  local read = redis.call('LRANGE', Pool.list(pool), 0, n - 1)
  for i, packed in ipairs(read) do
    local name, member, order = unpack(cmsgpack.unpack(packed))
    out[i] = {Streams.of(name), member, order}
  end
  if #read > 0 then Draft.leave('LTRIM', Pool.list(pool), #read, -1) end
  return out
end

-- A dispatched message nobody took goes back to its place; nothing is charged.
function Pool.give_back(packed, now)
  local name, member, order = unpack(cmsgpack.unpack(packed))
  local s = Streams.of(name)
  Policy.refund(Clock.of(s.pool), s.tenant)
  Streams.add(s, member, order, now)
  Slots.free(s, now)
  Draft.count('given_back')
end

-- Takes one message out of the list; its slots are free and its turn is not charged. Returns its order time.
function Pool.withdraw(s, member, now)
  local begins = string.char(148) .. cmsgpack.pack(s.name) .. cmsgpack.pack(member)      -- of an array of four
  local at, entries = 0, nil
  repeat
    entries = redis.call('LRANGE', Pool.list(s.pool), at, at + 999)
    at = at + #entries
    for _, packed in ipairs(entries) do
      if string.sub(packed, 1, #begins) == begins then
        Draft.leave('LREM', Pool.list(s.pool), 1, packed)
        Policy.refund(Clock.of(s.pool), s.tenant)
        Slots.free(s, now)
        return cmsgpack.unpack(packed)[3]
      end
    end
  until #entries < 1000
  error('dispatched message is in no worker queue: ' .. Streams.key(s, member))
end

-- Work that is left ready wakes one waiting process of its worker queue; that one wakes the next.
-- So does an earliest due time that is new, since those who wait sleep until the one they know.
-- Runs after commit(): who wakes must find the work. In a cluster nobody can tell whether one listens, on
-- whatever node: one that ended without a word costs a look.
function Pool.wake(now)
  for pool, c in pairs(Clock.by_pool) do
    local waits = redis.call('EXISTS', Pool.idle(pool)) == 1
    local due = waits and Streams.delayed(pool)
    local earliest = waits and due:first()
    if waits and (c.act:first() or (earliest and due.change[earliest])) then
      while true do
        local idle = redis.call('ZPOPMIN', Pool.idle(pool))
        if not idle[1] then break end
        if tonumber(idle[2]) >= now and (redis.call('PUBLISH', idle[1], root) > 0 or O.cluster) then break end
      end
    end
  end
end

function finish(now)
  Clock.save()
  Slots.save()
  Draft.commit()
  Pool.wake(now)
end
