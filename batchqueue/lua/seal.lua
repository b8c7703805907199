-- seal: say how many items a batch has; with all of them in, it takes no more.
-- args   now options key gen count
--        count: '' as many as are in
-- gives  sealed, waiting (for the rest), short (of its count), other (count), closed or unknown;
--        then count and items in
-- grows  refused whole when the server's memory is full
-- uses   shard clock record draft streams slots waiters policy living on_end pool
now = clock_ms(now)
local b = Batch.of(key)
if not b or b.hash:get('gen') ~= gen then return {'unknown', '', 0} end
local state, known, n = b.hash:get('state'), b.hash:get('count'), Batch.n(b, 'enqueued')
if count ~= '' and known ~= '' and count ~= known then return {'other', known, n} end
if state == 'callback_failed' then state = b.hash:get('outcome') end
if state == 'cancelled' or state == 'incomplete' then return {'closed', known, n} end
if state ~= 'filling' then return {'sealed', known, n} end
if count == '' and known ~= '' then return {'short', known, n} end
local wanted = tonumber(count) or n
local below = wanted == 0 and 0 or redis.call('BITCOUNT', Batch.key('items', key), 0, wanted - 1, 'BIT')
if count ~= '' and below ~= n then return {'other', count, n} end          -- an index beyond that count is in
b.hash:set('count', string.format('%.0f', wanted))
if wanted == n then Batch.seal(b, now) end
finish(now)
return {wanted == n and 'sealed' or 'waiting', string.format('%.0f', wanted), n}
