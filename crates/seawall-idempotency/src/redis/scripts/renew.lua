-- KEYS: record. ARGV: fence, lease (ms).
local seen = redis.call('HMGET', KEYS[1], 'state', 'fence')
if seen[1] ~= '1' or seen[2] ~= ARGV[1] then
    return 0
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', KEYS[1], 'lease_until', string.format('%.0f', now + ARGV[2]))
return 1
