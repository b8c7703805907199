-- _dispatch: decides whose message is next, as late as possible. Plans up to n messages of one worker
-- queue: takes a slot in every group of each, charges its tenant, parks what is blocked.
-- Returns a list of {stream, member, order}.
function dispatch(pool, n, now)
  local c, out = Clock.of(pool), {}
  local delayed = Streams.delayed(pool)
  for _ = 1, 2 * n + 16 do
    local name, due = delayed:first()
    if not name or due > now then break end
    Streams.place(Streams.of(name), now, 'delayed')
  end
  local budget = 4 * n + 64                     -- bounds a call: what is left is found by the next
  while n > 0 and budget > 0 do
    budget = budget - 1
    local tenant, via_lane = Policy.pick(c)
    if not tenant then break end
    local ready = Streams.ready(pool, tenant)
    local s = Streams.of(ready:first())
    local member, due = s.messages:first()
    local blocker = Slots.blocker(s)
    if not member or due > now then
      Streams.place(s, now, 'ready')
    elseif blocker then
      Waiters.park(s, blocker, due)
      for _, group in ipairs(s.groups) do
        if group ~= blocker then Waiters.wake(group, now) end      -- the baton: what it does not use, another may
      end
    else
      s.messages:rem(member)
      Slots.take(s)
      Policy.charge(c, tenant, via_lane)
      Streams.place(s, now, 'ready', true)
      out[#out + 1] = {s, member, due}
      n = n - 1
    end
    Streams.settle_tenant(pool, tenant)
  end
  if #out > 0 then Draft.count('dispatched', #out) end
  return out
end
