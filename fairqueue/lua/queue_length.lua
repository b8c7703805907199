-- queue_length: messages that wait in streams between two names, a number of streams at a time.
-- args   now options start upto limit
-- gives  the last stream read ('' when there are no more), their messages, delayed ones included
-- uses   shard
local names = redis.call('ZRANGEBYLEX', root .. ':streams', start, upto, 'LIMIT', 0, tonumber(limit))
local n = 0
for _, name in ipairs(names) do n = n + redis.call('ZCARD', root .. ':stream:' .. name) end
return {#names == tonumber(limit) and names[#names] or '', n}
