-- KEYS: record, open, all, owner. ARGV: name, fence.
local seen = redis.call('HMGET', KEYS[1], 'state', 'fence')
if seen[2] ~= ARGV[2] or (seen[1] ~= '1' and seen[1] ~= '2') then
    return 0
end
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('ZREM', KEYS[4], ARGV[1])
return 1
