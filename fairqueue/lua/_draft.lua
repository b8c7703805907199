-- _draft: a draft of the shard. Everything a script wants to change is planned here, on what it
-- has read so far, and written once by commit(): new homes first, old homes after. An error while
-- planning therefore changes nothing, and a key is written by one variadic command however many
-- of its members moved.
local redis_call = redis.call
local CHUNK = 500                              -- arguments a command may carry; Lua's unpack ends near 8,000

Draft = {sorted_sets = {}, hashes = {}, first = {}, last = {}, counts = {}, by_key = {}}

local function less(a, b)                      -- bytewise like a sorted set; `<` would follow the server's locale
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end
Draft.less = less

local function send(command, key, list)
  for i = 1, #list, CHUNK do
    redis_call(command, key, unpack(list, i, math.min(i + CHUNK - 1, #list)))
  end
end

-- A sorted set, read in growing windows from its low end, with planned changes laid over it.
--   base: what was read, in order; change: member -> planned score, or false; over: the planned scores in order,
--   made when first() is asked for; one that was planned over does not match its member's change any more
local Sorted = {at = 1, loaded = 0, lo = 1}
Sorted.__index = Sorted

function Draft.sorted(key, chunk)
  local set = Draft.by_key[key]
  if not set then
    set = setmetatable({key = key, chunk = chunk or 2, base = {}, known = {}, change = {}}, Sorted)
    Draft.by_key[key] = set
    Draft.sorted_sets[#Draft.sorted_sets + 1] = set
  end
  return set
end

function Sorted:load()
  local read = redis_call('ZRANGE', self.key, self.loaded, self.loaded + self.chunk - 1, 'WITHSCORES')
  local base, known = self.base, self.known
  for i = 1, #read, 2 do
    base[#base + 1] = read[i]
    known[read[i]] = tonumber(read[i + 1])
  end
  self.loaded = self.loaded + #read / 2
  self.complete = #read / 2 < self.chunk
  self.chunk = math.min(self.chunk * 2, 256)
end

function Sorted:insert(member, score)
  local over, i = self.over, #self.over + 1
  while i > self.lo do
    local other = over[i - 1]
    if other[1] < score or (other[1] == score and less(other[2], member)) then break end
    i = i - 1
  end
  table.insert(over, i, {score, member})
end

-- The lowest member and its score, or nil.
function Sorted:first()
  local change, base = self.change, self.base
  local member
  while true do
    member = base[self.at]
    if not member then
      if self.complete then break end
      self:load()
    elseif change[member] ~= nil then
      self.at = self.at + 1
    else
      break
    end
  end
  if not self.over then
    if not next(change) then return member, self.known[member] end
    self.over = {}
    for planned, score in pairs(change) do
      if score then self:insert(planned, score) end
    end
  end
  local over = self.over
  local planned = over[self.lo]
  while planned and change[planned[2]] ~= planned[1] do
    self.lo = self.lo + 1
    planned = over[self.lo]
  end
  local score = member and self.known[member]
  if planned and (not member or planned[1] < score or (planned[1] == score and less(planned[2], member))) then
    return planned[2], planned[1]
  end
  return member, score
end

function Sorted:score(member)
  local change = self.change[member]
  if change ~= nil then return change or nil end
  if self.known[member] == nil then
    self.known[member] = not self.complete and tonumber(redis_call('ZSCORE', self.key, member) or nil) or false
  end
  return self.known[member] or nil
end

function Sorted:add(member, score)
  self.change[member] = score
  if self.over then self:insert(member, score) end
end

function Sorted:rem(member) self.change[member] = false end

-- A hash, read field by field or many at once, with planned changes laid over it. Of a rare one it is asked
-- first whether it is there at all.
local Hash = {}
Hash.__index = Hash

function Draft.hash(key, rare)
  local hash = Draft.by_key[key]
  if not hash then
    hash = setmetatable({key = key, known = {}, change = {}, dirty = false, rare = rare}, Hash)
    Draft.by_key[key] = hash
    Draft.hashes[#Draft.hashes + 1] = hash
  end
  return hash
end

function Hash:fetch(fields)
  local missing = {}
  for _, field in ipairs(fields) do
    if self.known[field] == nil then
      missing[#missing + 1] = field
      self.known[field] = false
    end
  end
  for i = 1, #missing, CHUNK do
    local upto = math.min(i + CHUNK - 1, #missing)
    local read = redis_call('HMGET', self.key, unpack(missing, i, upto))
    for j = 1, #read do self.known[missing[i + j - 1]] = read[j] end
  end
end

function Hash:get(field)
  local change = self.change[field]
  if change ~= nil then return change or nil end
  local known = self.known[field]
  if known == nil then
    if self.rare then
      self.rare, self.empty = false, redis_call('EXISTS', self.key) == 0
    end
    known = not self.empty and redis_call('HGET', self.key, field)
    self.known[field] = known
  end
  return known or nil
end

function Hash:set(field, value)                -- nil or false deletes the field
  self.change[field] = value or false
  self.dirty = true
end

-- Commands that are not a sorted set's or a hash's: new homes run first, old homes last.
function Draft.home(...) Draft.first[#Draft.first + 1] = {...} end
function Draft.leave(...) Draft.last[#Draft.last + 1] = {...} end

-- Counters of the shard, in its root hash.
function Draft.count(name, n) Draft.counts[name] = (Draft.counts[name] or 0) + (n or 1) end

function Draft.commit()
  for _, command in ipairs(Draft.first) do redis_call(unpack(command)) end
  for _, hash in ipairs(Draft.hashes) do
    if hash.dirty then
      local set, gone = {}, {}
      for field, value in pairs(hash.change) do
        if value then
          set[#set + 1] = field
          set[#set + 1] = value
        elseif hash.known[field] ~= false then
          gone[#gone + 1] = field
        end
      end
      send('HSET', hash.key, set)
      hash.gone = gone
    end
  end
  for _, set in ipairs(Draft.sorted_sets) do
    local add, gone, known = {}, {}, set.known
    for member, change in pairs(set.change) do
      if not change then
        if known[member] ~= false then gone[#gone + 1] = member end
      elseif known[member] ~= change then
        add[#add + 1] = change                 -- a number keeps its 17 digits on its way to a command
        add[#add + 1] = member
      end
    end
    if #add > 0 then send('ZADD', set.key, add) end
    set.gone = gone
  end
  for _, set in ipairs(Draft.sorted_sets) do
    if #set.gone > 0 then send('ZREM', set.key, set.gone) end
  end
  for _, hash in ipairs(Draft.hashes) do
    if hash.gone then send('HDEL', hash.key, hash.gone) end
  end
  for _, command in ipairs(Draft.last) do redis_call(unpack(command)) end
  for name, n in pairs(Draft.counts) do
    if n ~= 0 then redis_call('HINCRBY', root, name, n) end
  end
end
