-- pools: the worker queues of a shard that have had messages.
-- args   now options
-- gives  their names
-- uses   shard
local names = {}
local all = redis.call('HGETALL', root)
for i = 1, #all, 2 do
  local name = string.match(all[i], '^pool:(.*)$')
  if name then names[#names + 1] = name end
end
return names
