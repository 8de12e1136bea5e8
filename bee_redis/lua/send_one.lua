-- One plain draft with a new id, as most sends are. It stands in front of layout.lua, which costs a third of this
-- to define; what it writes is what send_usual.lua would.
local call = redis.call
local clock = call('TIME')
local NOW = clock[1] * 1000000 + clock[2]
if #ARGV == 3 and ARGV[1] == '2' then
  local id, READY, MSG, META, HEAD, BELL = ARGV[2], KEYS[1], KEYS[4], KEYS[5], KEYS[10], KEYS[14]
  if call('HEXISTS', MSG, id) == 0 then
    local head = call('HMGET', HEAD, 'listed', 'number', 'created')
    local wakes = call('LLEN', BELL)
    local number = math.max(tonumber(head[2] or '0') or 0, NOW) + 1
    local apart = number - NOW + 0x80000000
    if apart < 0xFF000000 then -- else its spot is a long one
      local spot = struct.pack('>I8I4', NOW, apart)
      call('HDEL', META, id) -- as `create` does; what has not been looked at yet comes first
      call('ZADD', READY, '0', spot .. id)
      call('HSET', MSG, id, spot .. '\0' .. ARGV[3])
      call('HSET', HEAD, 'number', string.format('%.0f', number), 'created',
           string.format('%.0f', (tonumber(head[3] or '0') or 0) + 1))
      if wakes < 8 then call('RPUSH', BELL, '1') end
      return head[1] and 'c' or '!c'
    end
  end
end
