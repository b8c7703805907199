-- audit_batches: compare each batch's figures with the marks and records behind them, a page of batches. Writes nothing.
-- args   now options after limit
-- gives  the last key looked at ('' at the end); then for each finding: key and what is wrong
-- uses   shard
local out, last = {''}, nil
for _, key in ipairs(redis.call('ZRANGEBYLEX', root .. ':batches', after == '' and '-' or '(' .. after, '+',
                                'LIMIT', 0, tonumber(limit))) do
  last = key
  local row = redis.call('HMGET', root .. ':batch:' .. key, 'state', 'phase', 'enqueued', 'succeeded', 'failed', 'cancelled')
  if row[1] then
    local n = {}
    for i = 3, 6 do n[i - 2] = tonumber(row[i] or 0) end
    local failed = redis.call('ZCARD', root .. ':failed:' .. key)
    local found = {
      {'items that are in', n[1], redis.call('BITCOUNT', root .. ':items:' .. key)},
      {'succeeded', n[2], redis.call('BITCOUNT', root .. ':succeeded:' .. key)},
      {'failed', n[3], failed},
      {'failures kept', failed + redis.call('ZCARD', root .. ':redriving:' .. key), redis.call('HLEN', root .. ':failures:' .. key)},
    }
    for _, f in ipairs(found) do
      if f[2] ~= f[3] then
        out[#out + 1] = key
        out[#out + 1] = f[1] .. ': ' .. f[2] .. ' counted, ' .. f[3] .. ' there'
      end
    end
    local processed = n[2] + n[3] + n[4]
    if processed > n[1] or (row[2] ~= 'open' and processed < n[1])
       or (row[2] == 'open' and row[1] ~= 'filling' and processed == n[1]) then
      out[#out + 1] = key
      out[#out + 1] = processed .. ' of ' .. n[1] .. ' ended in phase ' .. row[2] .. ', state ' .. row[1]
    end
  end
end
if last then out[1] = last end
return out
