-- KEYS: all. ARGV: limit, the prefix of a record's key.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local over = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])
for _, name in ipairs(over) do
    redis.call('DEL', ARGV[2] .. name)
    redis.call('ZREM', KEYS[1], name)
end
return #over
