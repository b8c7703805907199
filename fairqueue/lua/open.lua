-- open: claim a shard for a namespace's settings, or say what it was made with.
-- args   now options schema shards owner
-- gives  schema, shards, owner as stored
-- uses   shard
if redis.call('HEXISTS', root, 'schema') == 0 then
  redis.call('HSET', root, 'schema', schema, 'shards', shards, 'owner', owner)
end
return redis.call('HMGET', root, 'schema', 'shards', 'owner')
