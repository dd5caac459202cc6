-- KEYS: record. ARGV: fence.
local seen = redis.call('HMGET', KEYS[1], 'state', 'fence')
if seen[2] ~= ARGV[1] or (seen[1] ~= '1' and seen[1] ~= '2') then
    return 0
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSETNX', KEYS[1], 'unknown_since', string.format('%.0f', now))
redis.call('HSET', KEYS[1], 'state', '2')
return 1
