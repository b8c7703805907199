-- _record: one message as stored: a fixed header that scripts read and write, the stream's name
-- without tenant and queue, the history of its failures, and a body that only clients read.
--   seq c12 | order d | enqueued d | attempt H | deliveries H | state B | #stream H | #history I | ...
Record = {LIVE = 0, DEAD = 1}
local FORMAT = '>c12ddHHBHI'
local HISTORY = 20                             -- failures kept: the first one and the latest

function Record.read(raw)
  local r = {}
  local n_stream, n_history, at
  r.seq, r.order, r.enqueued, r.attempt, r.deliveries, r.state, n_stream, n_history, at = struct.unpack(FORMAT, raw)
  r.stream = string.sub(raw, at, at + n_stream - 1)
  r.history = string.sub(raw, at + n_stream, at + n_stream + n_history - 1)
  r.body = string.sub(raw, at + n_stream + n_history)
  return r
end

-- Attempt and deliveries alone: all that a lease needs of the header.
function Record.counts(raw) return struct.unpack('>HH', raw, 29) end

function Record.write(r)
  return struct.pack(FORMAT, r.seq, r.order, r.enqueued, r.attempt, r.deliveries, r.state, #r.stream, #r.history)
    .. r.stream .. r.history .. r.body
end

-- Adds what happened to one delivery: when, the kind of end, its text, the attempt and the delivery.
function Record.note(r, now, kind, text)
  local history = r.history ~= '' and cmsgpack.unpack(r.history) or {}
  history[#history + 1] = {now, kind, text, r.attempt, r.deliveries}
  if #history > HISTORY then table.remove(history, 2) end
  r.history = cmsgpack.pack(history)
end

-- The next sequence number of the shard: what orders messages of the same millisecond.
function Record.sequence() return string.format('%012x', redis.call('HINCRBY', root, 'seq', 1)) end
