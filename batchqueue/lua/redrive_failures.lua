-- redrive_failures: take a batch's failures back: they do not count as failed any more and run again, fed in
-- by `feed`. A batch that was over lives again, in its next round.
-- args   now options key gen
-- gives  failures taken back; -1 unknown, -2 its callback is due or runs, -3 cancelled
-- grows  refused whole when the server's memory is full
-- uses   shard clock record draft streams slots waiters policy living on_end pool
now = clock_ms(now)
local b = Batch.of(key)
if not b or b.hash:get('gen') ~= gen then return -1 end
if b.hash:get('phase') == 'call' then return -2 end
if b.hash:get('state') == 'cancelled' or b.hash:get('outcome') == 'cancelled' then return -3 end
local failed, redriving = Batch.key('failed', key), Batch.key('redriving', key)
local n = redis.call('ZCARD', failed)
if n == 0 then return 0 end
Draft.home('ZUNIONSTORE', redriving, 2, redriving, failed)
Draft.leave('DEL', failed)
Batch.add(b, 'failed', -n)
if b.hash:get('phase') == 'over' then
  Batch.reopen(b)
  b.hash:set('phase', 'open')
  b.hash:set('state', b.hash:get('outcome'))
  local limit = b.hash:get('concurrency')
  if limit ~= '' then Batch.limit(b, limit) end
end
Batch.due():add(key, now + 1000)               -- the sweep feeds what the caller does not
finish(now)
return n
