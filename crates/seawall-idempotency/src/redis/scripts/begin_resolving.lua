-- KEYS: record, fence. ARGV: fence. Returns a new fence for the operator, or false.
local seen = redis.call('HMGET', KEYS[1], 'state', 'fence', 'lease_until')
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if seen[2] ~= ARGV[1] then
    return false
end
if seen[1] ~= '2' and not (seen[1] == '1' and tonumber(seen[3]) <= now) then
    return false
end
local fence = math.max(tonumber(redis.call('GET', KEYS[2]) or '0') + 1, now)
local text = string.format('%.0f', fence)
redis.call('SET', KEYS[2], text)
redis.call('HSETNX', KEYS[1], 'unknown_since', seen[3])
-- Unknown under the operator's own fence: an owner that comes back from the dead changes nothing.
redis.call('HSET', KEYS[1], 'state', '2', 'fence', text)
return text
