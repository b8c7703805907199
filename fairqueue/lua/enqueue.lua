-- enqueue: add messages; one whose id lives already changes nothing.
-- args   now options call_id limits
--        limits: packed list of group, what its callable said (see Slots.learn), how many ms ago; or ''
-- rest   n, n streams; then for each message: stream number, id, due, body
--        due: '' at once, '+ms' from now, 'ms' since the epoch (the past counts as now)
-- gives  for each message 1 created, 0 it was there
-- grows  refused whole when the server's memory is full
-- uses   shard clock record draft streams slots waiters policy living on_end pool
now = clock_ms(now)
if limits ~= '' then
  local said, groups = cmsgpack.unpack(limits), {}
  for i = 1, #said, 3 do groups[#groups + 1] = said[i] end
  Slots.fetch(groups)
  for i, group in ipairs(groups) do
    if not Slots.hash():get(group .. '?') then Slots.learn(group, said[3 * i - 1], now - said[3 * i]) end
  end
end
local streams, at = {}, rest
for i = 1, tonumber(ARGV[at]) do streams[i] = Streams.of(ARGV[at + i]) end
at = at + #streams + 1
local keys, out, created = {}, {}, {}
for i = at, #ARGV, 4 do keys[#keys + 1] = streams[tonumber(ARGV[i])].prefix .. ARGV[i + 1] end
Living.messages():fetch(keys)
for n, key in ipairs(keys) do
  local i = at + (n - 1) * 4
  local s, id, due, body = streams[tonumber(ARGV[i])], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local there = Living.messages():get(key)
  if there then
    out[n] = string.sub(Record.read(there).body, 1, #call_id) == call_id and 1 or 0    -- 1: this call, sent again
  elseif created[key] then
    out[n] = 0
  elseif O.dedupe and O.dedupe > 0 and redis.call('EXISTS', root .. ':ended:' .. key) == 1 then
    out[n] = 0
  else
    out[n], created[key] = 1, true
  end
end
local fresh = 0
for _ in pairs(created) do fresh = fresh + 1 end
local seq = fresh > 0 and redis.call('HINCRBY', root, 'seq', fresh) - fresh or 0
for n, key in ipairs(keys) do
  if created[key] then
    created[key] = nil
    local i = at + (n - 1) * 4
    local s, id, due, body = streams[tonumber(ARGV[i])], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
    local order = now
    if due ~= '' then
      order = string.sub(due, 1, 1) == '+' and now + tonumber(due) or math.max(now, tonumber(due))
    end
    seq = seq + 1
    local member = string.format('%012x', seq)
    Living.messages():set(key, Record.write({seq = member, order = order, enqueued = now, attempt = 1, deliveries = 0,
      state = Record.LIVE, stream = s.suffix, history = '', body = body}))
    Streams.add(s, member .. id, order, now)
    Clock.living(s.pool, 1)
  end
end
Draft.count('enqueued', fresh)
finish(now)
return out
