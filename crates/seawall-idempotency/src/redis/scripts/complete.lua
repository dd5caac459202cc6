-- KEYS: record, open, all, owner. ARGV: name, fence, keep (ms), tombstone (ms), outcome.
local seen = redis.call('HMGET', KEYS[1], 'state', 'fence')
if seen[2] ~= ARGV[2] then
    return 0
end
if seen[1] == '3' then
    return 1
end
if seen[1] ~= '1' and seen[1] ~= '2' then
    return 0
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function number(value) return string.format('%.0f', value) end
local expires_at = now + ARGV[3]
local forget_at = expires_at + ARGV[4]
redis.call('HSET', KEYS[1], 'state', '3', 'completed_at', number(now),
    'expires_at', number(expires_at), 'forget_at', number(forget_at), 'outcome', ARGV[5])
redis.call('HDEL', KEYS[1], 'unknown_since')
redis.call('PEXPIREAT', KEYS[1], number(forget_at))
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZADD', KEYS[3], forget_at, ARGV[1])
redis.call('ZADD', KEYS[4], expires_at, ARGV[1])
-- The lists forget what is over, and an owner's whole list goes with its last record.
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now)
redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', now)
if redis.call('ZCOUNT', KEYS[4], '+inf', '+inf') == 0 then
    local last = redis.call('ZREVRANGE', KEYS[4], 0, 0, 'WITHSCORES')
    if last[2] then
        redis.call('PEXPIREAT', KEYS[4], number(tonumber(last[2])))
    end
end
return 1
