-- _on_end: what the end of a message means beyond its own record: here nothing. A library that stands on
-- fairqueue puts a piece of its own in this place, so that what it counts changes in the same script.
--   how: completed, discarded, dead, cancelled, dropped; note: see Living.over
function on_end(s, key, how, now, note) end
