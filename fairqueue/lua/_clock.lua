-- _clock: the time of a call in milliseconds: the server's, read once, unless the caller brings one (tests do).
function clock_ms(given)
  if given ~= '' then return tonumber(given) end
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
