#!lua
-- Store one plain draft, as most sends are: what send_usual.lua would write, for less. It stands alone, because
-- layout.lua takes time to define, and so do keys that it does not need: docs/adr/0035.
-- KEYS  ready, msg, meta, head, bell
-- ARGV  id, body
-- Returns what send.lua does; or nothing, and then nothing is written: it is for send.lua. That is also for who wants
-- it confirmed, as it writes something in any case.
local READY, MSG, META, HEAD, BELL = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local id, call = ARGV[1], redis.call
-- Whatever may be of a wrong type is read before anything is written, but for ready.
local head = call('HMGET', HEAD, 'listed', 'number', 'created')
local wakes, outlived = call('LLEN', BELL), call('HEXISTS', META, id)
local clock = call('TIME')
local NOW = clock[1] * 1000000 + clock[2]
local function whole(value) -- as in layout.lua
  local number = tonumber(value or '0') or 0
  return number > -2^53 and number < 2^53 and number or 0
end
local number = math.max(whole(head[2]), NOW) + 1
local apart = number - NOW + 0x80000000
if apart >= 0xFF000000 then return '' end -- its spot is a long one
local spot = struct.pack('>I8I4', NOW, apart)
if call('HSETNX', MSG, id, spot .. '\0' .. ARGV[2]) == 0 then return head[1] and 'k' or '!k' end
local reply = redis.pcall('ZADD', READY, '0', spot .. id)
if type(reply) == 'number' then
  local created = whole(head[3]) + 1
  reply = redis.pcall('HSET', HEAD, 'number', string.format('%d', number), 'created', string.format('%d', created))
end
if type(reply) ~= 'number' then -- an error: what was not sent, as its sender will hear, must not be live
  redis.pcall('ZREM', READY, spot .. id)
  call('HDEL', MSG, id)
  return reply
end
if outlived == 1 then call('HDEL', META, id) end -- as `create` does
if wakes < 8 then call('RPUSH', BELL, '1') end
return head[1] and 'c' or '!c'
