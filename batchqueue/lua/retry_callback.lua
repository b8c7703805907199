-- retry_callback: call again for a batch whose callback was given up on.
-- args   now options key gen
-- gives  1 called, 0 it is not in that state, -1 unknown
-- grows  refused whole when the server's memory is full
-- uses   shard clock record draft streams slots waiters policy living on_end pool
now = clock_ms(now)
local b = Batch.of(key)
if not b or b.hash:get('gen') ~= gen then return -1 end
if b.hash:get('state') ~= 'callback_failed' then return 0 end
Batch.reopen(b)
Batch.add(b, 'round', -1)                      -- the same completion, once more
b.hash:set('state', b.hash:get('outcome') == 'sealed' and 'completing' or b.hash:get('outcome'))
Batch.call(b, now)
finish(now)
return 1
