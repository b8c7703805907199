-- queue_length: messages that wait in the queues whose streams begin with a prefix.
-- args   now options prefix
-- gives  their number, delayed ones included
-- uses   shard
local upto = string.sub(prefix, 1, -2) .. '0'  -- '0' follows '/' in bytes
local n = 0
for _, name in ipairs(redis.call('ZRANGEBYLEX', root .. ':streams', '[' .. prefix, '(' .. upto)) do
  n = n + redis.call('ZCARD', root .. ':stream:' .. name)
end
return n
