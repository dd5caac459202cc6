-- KEYS: record, fence, open, all, owner.
-- ARGV: name, fingerprint, owner, holder, lease (ms), quota (0: none), take over (1).
-- Returns: verdict, fence, attempt, lease_until, since or now, outcome.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function number(value) return string.format('%.0f', value) end

local function acquire(attempt)
    -- Above the last one, and above any that a data loss made this Redis forget.
    local fence = math.max(tonumber(redis.call('GET', KEYS[2]) or '0') + 1, now)
    redis.call('SET', KEYS[2], number(fence))
    redis.call('HSET', KEYS[1], 'state', '1', 'fence', number(fence), 'attempt', number(attempt),
        'holder', ARGV[4], 'lease_until', number(now + ARGV[5]))
    redis.call('HDEL', KEYS[1], 'unknown_since')
    return { 1, number(fence), attempt, number(now + ARGV[5]), number(now), '' }
end

local function insert()
    if tonumber(ARGV[6]) > 0 then
        redis.call('ZREMRANGEBYSCORE', KEYS[5], '-inf', now)
        if redis.call('ZCARD', KEYS[5]) >= tonumber(ARGV[6]) then
            return { 8, '0', 0, '0', '0', '' }
        end
    end
    redis.call('HSET', KEYS[1], 'version', '1', 'fingerprint', ARGV[2], 'owner', ARGV[3],
        'created_at', number(now))
    redis.call('ZADD', KEYS[3], now, ARGV[1])
    redis.call('ZADD', KEYS[4], '+inf', ARGV[1])
    redis.call('ZADD', KEYS[5], '+inf', ARGV[1])
    redis.call('PERSIST', KEYS[5])
    return acquire(1)
end

local seen = redis.call('HMGET', KEYS[1], 'state', 'fingerprint', 'holder', 'fence', 'attempt',
    'lease_until', 'unknown_since', 'expires_at', 'forget_at', 'outcome', 'version')
local state = seen[1]
if not state then
    if redis.call('EXISTS', KEYS[1]) == 1 then
        return { 9, '0', 0, '0', '0', '' }
    end
    return insert()
end
if seen[11] ~= '1' or (state ~= '1' and state ~= '2' and state ~= '3') then
    return { 9, '0', 0, '0', '0', '' }
end
if state == '3' and tonumber(seen[8]) <= now then
    if tonumber(seen[9]) > now then
        return { 7, '0', 0, '0', '0', '' }
    end
    redis.call('DEL', KEYS[1])
    redis.call('ZREM', KEYS[4], ARGV[1])
    redis.call('ZREM', KEYS[5], ARGV[1])
    return insert()
end
if seen[2] ~= ARGV[2] then
    return { 4, '0', 0, '0', '0', '' }
end
if state == '3' then
    return { 3, seen[4], tonumber(seen[5]), '0', '0', seen[10] }
end
if state == '1' then
    if seen[3] == ARGV[4] then
        return { 1, seen[4], tonumber(seen[5]), seen[6], number(now), '' }
    end
    if tonumber(seen[6]) > now then
        return { 2, '0', 0, seen[6], number(now), '' }
    end
end
if ARGV[7] ~= '1' then
    if state == '1' then
        return { 5, '0', 0, '0', seen[6], '' }
    end
    return { 6, '0', 0, '0', seen[7], '' }
end
return acquire(tonumber(seen[5]) + 1)
