-- _slots: concurrency groups: how many messages of a group are dispatched or leased, and how many may be.
-- Field "<group>" of the hash counts its slots in use, "<group>#" holds the limit set at run time.
-- Where a callable gives the limits of the group's name (O.live), "<group>?" holds what it last said and
-- "<group>+" counts the streams with messages; both go with the group's last message, and the set asked
-- says when it was asked. Otherwise the default of the name counts, which the caller brings along.
-- A pause is one more group that is full while it lasts: "!t" of a tenant, "!t/q" of a queue; the hash
-- paused holds t or t/q.
Slots = {}
local idle = {}                                -- live groups that may have seen their last message
local live, any_pause = {}, nil

local groups
function Slots.hash()
  groups = groups or Draft.hash(root .. ':groups')
  return groups
end

function Slots.asked() return Draft.sorted(root .. ':asked') end

local defaults = {}                            -- of groups, once looked up; false: unlimited
local function default(group)
  if defaults[group] == nil then defaults[group] = O.limits[string.match(group, '^[^=]*')] or false end
  return defaults[group] or nil
end

function Slots.paused(what) return Draft.hash(root .. ':paused'):get(what) end

-- The pause that holds a stream back, as a group, or nil.
local function pause(s)
  if any_pause == nil then any_pause = redis.call('EXISTS', root .. ':paused') == 1 end
  if not any_pause then return nil end
  local queue = s.tenant .. '/' .. s.queue
  Draft.hash(root .. ':paused'):fetch({s.tenant, queue})
  return Slots.paused(s.tenant) and '!' .. s.tenant or Slots.paused(queue) and '!' .. queue or nil
end

function Slots.live(group)                     -- whether a callable gives its limit
  if not O.live then return false end
  if live[group] == nil then live[group] = O.live[string.match(group, '^[^=]*')] or false end
  return live[group]
end

function Slots.fetch(groups)
  local fields = {}
  for _, group in ipairs(groups) do
    fields[#fields + 1] = group
    fields[#fields + 1] = group .. '#'
    if Slots.live(group) then
      fields[#fields + 1] = group .. '?'
      fields[#fields + 1] = group .. '+'
    end
  end
  if #fields > 0 then Slots.hash():fetch(fields) end
end

function Slots.used(group) return tonumber(Slots.hash():get(group) or 0) end

function Slots.limit(group)                    -- nil: unlimited
  if string.byte(group) == 33 then return Slots.paused(string.sub(group, 2)) and 0 or nil end      -- 33: '!'
  local set = Slots.hash():get(group .. '#')
  if not set and Slots.live(group) then
    set = Slots.hash():get(group .. '?') or '0'          -- nobody was asked yet: nothing starts until then
  end
  if set then return set ~= "-1" and tonumber(set) or nil end
  return default(group)
end

function Slots.full(group)
  local limit = Slots.limit(group)
  return limit ~= nil and Slots.used(group) >= limit
end

-- What a callable said at a time: '-1' is unlimited. '~' and its last good answer, if any, when it failed:
-- then what is known here stays, else that answer counts, else the default.
function Slots.learn(group, said, at)
  if string.sub(said, 1, 1) == '~' then
    local last = #said > 1 and string.sub(said, 2)
    said = Slots.hash():get(group .. '?') or last or tostring(default(group) or -1)
  end
  Slots.hash():set(group .. '?', said)
  Slots.asked():add(group, at)
  idle[group] = true
end

-- A stream came to have messages (n = 1) or has none left (n = -1).
function Slots.count(s, n)
  if not O.live then return end
  Slots.fetch(s.groups)
  for _, group in ipairs(s.groups) do
    if Slots.live(group) then
      local streams = tonumber(Slots.hash():get(group .. '+') or 0) + n
      Slots.hash():set(group .. '+', streams > 0 and tostring(streams) or nil)
      if not Slots.hash():get(group .. '?') then Slots.asked():add(group, 0) end     -- the next look asks
      idle[group] = true
    end
  end
end

-- Forgets the limits of groups whose last message is gone. Runs before commit().
function Slots.save()
  for group in pairs(idle) do
    if Slots.used(group) == 0 and not Slots.hash():get(group .. '+') and not Waiters.pools():get(group) then
      Slots.hash():set(group .. '?', nil)
      Slots.asked():rem(group)
    end
  end
end

-- What holds a stream back: a pause, or its first full group in the order its options declare them, or nil.
function Slots.blocker(s)
  local held = pause(s)
  if held then return held end
  Slots.fetch(s.groups)
  for _, group in ipairs(s.groups) do
    if Slots.full(group) then
      if Slots.live(group) and not Slots.hash():get(group .. '?') then
        Slots.asked():add(group, 0)
        if not Slots.hash():get(group .. '+') then Slots.hash():set(group .. '+', '1') end   -- older than its callable
      end
      return group
    end
  end
end

function Slots.take(s)
  for _, group in ipairs(s.groups) do Slots.hash():set(group, Slots.used(group) + 1) end
end

-- Frees one slot in each group of the stream; each wakes one who waits for it.
function Slots.free(s, now)
  Slots.fetch(s.groups)
  for _, group in ipairs(s.groups) do
    local used = Slots.used(group) - 1
    Slots.hash():set(group, used > 0 and used or nil)
    if Slots.live(group) then idle[group] = true end
  end
  for _, group in ipairs(s.groups) do Waiters.wake(group, now) end
end
