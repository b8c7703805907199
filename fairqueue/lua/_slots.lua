-- _slots: concurrency groups: how many messages of a group are dispatched or leased, and how many may be.
-- Field "<group>" of the hash counts its slots in use, "<group>#" holds the limit set at run time;
-- without one the default of the group's name counts, which the caller brings along.
Slots = {}

function Slots.hash() return Draft.hash(root .. ':groups') end

function Slots.fetch(groups)
  local fields = {}
  for _, group in ipairs(groups) do
    fields[#fields + 1] = group
    fields[#fields + 1] = group .. '#'
  end
  if #fields > 0 then Slots.hash():fetch(fields) end
end

function Slots.used(group) return tonumber(Slots.hash():get(group) or 0) end

function Slots.limit(group)                    -- nil: unlimited
  local set = Slots.hash():get(group .. '#')
  if set then return set ~= "-1" and tonumber(set) or nil end
  return O.limits[string.match(group, '^[^=]*')]
end

function Slots.full(group)
  local limit = Slots.limit(group)
  return limit ~= nil and Slots.used(group) >= limit
end

-- The first full group of a stream in the order its options declare them, or nil.
function Slots.blocker(s)
  Slots.fetch(s.groups)
  for _, group in ipairs(s.groups) do
    if Slots.full(group) then return group end
  end
end

function Slots.take(s)
  for _, group in ipairs(s.groups) do Slots.hash():set(group, tostring(Slots.used(group) + 1)) end
end

-- Frees one slot in each group of the stream; each wakes one who waits for it.
function Slots.free(s, now)
  Slots.fetch(s.groups)
  for _, group in ipairs(s.groups) do
    local used = Slots.used(group) - 1
    Slots.hash():set(group, used > 0 and tostring(used) or nil)
  end
  for _, group in ipairs(s.groups) do Waiters.wake(group, now) end
end
