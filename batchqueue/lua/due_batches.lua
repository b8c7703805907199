-- due_batches: what time brings: a batch not filled in time is incomplete, one past its retention goes.
-- args   now options limit
-- gives  batches looked at; then purge or feed and a key, for each that was left half way
-- frees  works on a full server
-- uses   shard clock record draft streams slots waiters policy living on_end pool
now = clock_ms(now)
local out = {0}
for _, key in ipairs(redis.call('ZRANGEBYSCORE', root .. ':batch_due', '-inf', now, 'LIMIT', 0, tonumber(limit))) do
  local b = Batch.of(key)
  local state, phase = b and b.hash:get('state'), b and b.hash:get('phase')
  out[1] = out[1] + 1
  if not b or phase == 'over' then
    for _, name in ipairs(DATA) do Draft.leave('UNLINK', Batch.key(name, key)) end
    if b and b.hash:get('idem') then Draft.leave('UNLINK', b.hash:get('idem')) end
    Draft.sorted(root .. ':batches'):rem(key)
    Batch.due():rem(key)
  elseif phase == 'open' then
    local deadline = tonumber(b.hash:get('deadline') or nil)
    if state == 'filling' and deadline and deadline <= now then
      state = 'incomplete'
      b.hash:set('state', state)
    end
    local left = redis.call('EXISTS', Batch.key('redriving', key)) == 1 and 'feed' or state == 'cancelled' and 'purge'
    if left then
      Batch.due():add(key, now + 1000)
      out[#out + 1] = left
      out[#out + 1] = key
    elseif state == 'filling' and deadline then
      Batch.due():add(key, deadline)
    else
      Batch.due():rem(key)
    end
    Batch.check(b, now)
  else
    Batch.due():rem(key)
  end
end
finish(now)
return out
