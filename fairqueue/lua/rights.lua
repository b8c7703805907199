-- rights: which of the commands a queue needs this user may not run on this shard. Writes nothing.
-- args   now options channel
-- rest   commands, in capitals
-- gives  those that are denied
-- keyless  checks rights only
-- uses   shard
local denied = {}
if not redis.acl_check_cmd then return denied end      -- a server that only speaks like one: found out by use
for i = rest, #ARGV do
  local command = {ARGV[i]}
  if ARGV[i] == 'EVALSHA' then command = {'EVALSHA', string.rep('0', 40), '1', root}
  elseif ARGV[i] == 'SCRIPT' then command = {'SCRIPT', 'LOAD', ''}
  elseif ARGV[i] == 'PUBLISH' or ARGV[i] == 'SUBSCRIBE' then command = {ARGV[i], channel}
  elseif ARGV[i] == 'ZUNIONSTORE' then command = {ARGV[i], root .. ':messages', '1', root .. ':messages'}
  elseif ARGV[i] ~= 'TIME' and ARGV[i] ~= 'PING' then command = {ARGV[i], root .. ':messages'} end
  local known, allowed = pcall(redis.acl_check_cmd, unpack(command))
  if known and not allowed then denied[#denied + 1] = ARGV[i] end
end
return denied
