-- list_batches: batches by name, a page of them.
-- args   now options prefix after limit
-- gives  key, state, count, enqueued, succeeded, failed, cancelled, created of each
-- uses   shard
local from = after ~= '' and '(' .. after or (prefix ~= '' and '[' .. prefix or '-')
local to = prefix ~= '' and '(' .. string.sub(prefix, 1, -2) .. '0' or '+'
local out = {}
for _, key in ipairs(redis.call('ZRANGEBYLEX', root .. ':batches', from, to, 'LIMIT', 0, tonumber(limit))) do
  local row = redis.call('HMGET', root .. ':batch:' .. key, 'state', 'count', 'enqueued', 'succeeded', 'failed',
    'cancelled', 'created')
  out[#out + 1] = key
  for i = 1, 7 do out[#out + 1] = row[i] or '' end
end
return out
