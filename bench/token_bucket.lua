-- The usual token bucket as a script: KEYS[1], ARGV: burst, tokens a second, cost.
local burst = tonumber(ARGV[1])
local rate = tonumber(ARGV[2])
local cost = tonumber(ARGV[3])

local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000

local stored = redis.call('HMGET', KEYS[1], 'tokens', 'timestamp')
local tokens = tonumber(stored[1]) or burst
local timestamp = tonumber(stored[2]) or now

tokens = math.min(burst, tokens + math.max(0, now - timestamp) * rate)

local allowed = 0
local retry_after = 0
if tokens >= cost then
  allowed = 1
  tokens = tokens - cost
else
  retry_after = (cost - tokens) / rate
end

redis.call('HSET', KEYS[1], 'tokens', tokens, 'timestamp', now)
redis.call('EXPIRE', KEYS[1], math.ceil(burst / rate) + 1)

return { allowed, math.floor(tokens), tostring(retry_after) }
