-- resume: the end of a pause: what stands parked on it goes to its place.
-- args   now options what limit
--        what: t or t/q; '' goes on with one that was not finished; limit: move at most so many streams a call
-- gives  1 when more are left, else 0
-- frees  works on a full server
-- uses   shard clock record draft streams slots waiters policy living on_end pool
now = clock_ms(now)
local resuming = Draft.sorted(root .. ':resuming')
if what == '' then what = resuming:first() end
if not what then return 0 end
Draft.hash(root .. ':paused'):set(what, nil)
Waiters.admit('!' .. what, tonumber(limit), now)
local left = Waiters.pools():get('!' .. what)
if left then resuming:add(what, now) else resuming:rem(what) end
finish(now)
return left and 1 or 0
