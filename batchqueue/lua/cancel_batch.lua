-- cancel_batch: no item of a batch starts any more; those that wait are purged after this, those that run end.
-- args   now options key gen
-- gives  1 cancelled, 0 it had ended, -1 unknown
-- frees  works on a full server
-- uses   shard clock record draft streams slots waiters policy living on_end pool
now = clock_ms(now)
local b = Batch.of(key)
if not b or b.hash:get('gen') ~= gen then return -1 end
local state = b.hash:get('state')
if state == 'cancelled' then return 1 end
if b.hash:get('phase') ~= 'open' then return 0 end
b.hash:set('state', 'cancelled')
Batch.limit(b, '0')
Batch.due():add(key, now)                      -- the sweep goes on where the caller ends
Batch.check(b, now)
finish(now)
return 1
