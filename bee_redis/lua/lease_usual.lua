-- The usual lease: nothing is paused, keyed, rated or blocked, nothing has fallen due or run out, and every
-- message that is next is there and has never been leased. It stands in front of lib.lua, whose functions
-- cost more to define than a small lease costs to run. Returns what lease.lua does, or nothing, and then
-- nothing is written: what is not usual is for lease.lua.
local ONCE = struct.pack(COUNTERS, 1, 0, 0, 0, 0, 0)
local stride = tonumber(ARGV[9] or '1')

-- The last one, up to this, of the tokens that may be given.
local function aligned(token) return stride == 1 and token or token - (token - ARGV[10]) % stride end

local function lease_usual(limit, duration, holder, has_rate)
  local head = call('HMGET', HEAD, 'paused', 'token')
  local token = math.max(whole(head[2]), NOW)
  if head[1] or token > NOW or has_rate or call('ZCARD', LISTS) > 0 or call('HLEN', NEXT) > 0 then return end
  token = aligned(token)
  local first, elsewhere = math.huge, 0
  for _, key in ipairs({DELAYED, LEASED}) do
    local at = tonumber(call('ZRANGE', key, 0, 0, 'WITHSCORES')[2])
    if at and at <= NOW then return end
    if at then first, elsewhere = math.min(first, at), elsewhere + call('ZCARD', key) end
  end
  local members, wakes = call('ZRANGE', READY, 0, limit - 1), call('LLEN', BELL)
  local count = #members
  local waiting = count == limit and call('ZCARD', READY) > count
  if not waiting and call('HLEN', MSG) > elsewhere + count then return end

  local reply = {''}
  if count > 0 then
    local sub, find, byte, pack = string.sub, string.find, string.byte, struct.pack
    local ids, spots, records, leases, lengths, id_size, size, n = {}, {}, {}, {}, '', -1, -1, 1
    for i = 1, count do
      local behind = spot_size(members[i], 1) + 1
      if byte(members[i], behind) == 0 then return end -- it has a key
      spots[i], ids[i] = sub(members[i], 1, behind - 1), sub(members[i], behind)
    end
    local messages, metas = call('HMGET', MSG, unpack(ids)), call('HMGET', META, unpack(ids))
    local until_then, rest = text(NOW + duration), pack('>I2', #holder) .. holder .. NO_NOTE
    local counters = ONCE .. '\0'
    local plain = '\0' .. counters -- in front of it the priority
    for i = 1, count do
      local id, message, begins = ids[i], messages[i], spots[i]
      if metas[i] or not message or find(message, begins, 1, true) ~= 1 then return end -- or the place is stale
      local at, told = #begins + 1, plain
      local full = byte(message, at)
      if full ~= 0 then
        local high, low = byte(message, at + FULL_SIZE - 1, at + FULL_SIZE)
        if full ~= 1 or not low or high + low > 0 then return end -- it has extras
        told = sub(message, at + 1, at + 1) .. counters
      end
      records[2 * i - 1] = id
      records[2 * i] = pack('>I8', token + i * stride) .. told .. begins .. rest
      leases[2 * i - 1], leases[2 * i] = until_then, id
      if #id ~= id_size or #message ~= size then -- else they are those of the one before
        id_size, size = #id, #message
        lengths = pack(LEASE, id_size, 0, size)
      end
      reply[n + 1], reply[n + 2], reply[n + 3] = lengths, id, message
      n = n + 3
    end
    call('ZREMRANGEBYRANK', READY, 0, count - 1)
    call('HSET', META, unpack(records))
    call('ZADD', LEASED, unpack(leases))
    call('HSET', HEAD, 'token', text(token + count * stride))
    first = math.min(first, NOW + duration)
  end

  if waiting then
    if wakes < BELLS then call('RPUSH', BELL, '1') end -- pass the wake-up on
    reply[1] = struct.pack(LEASED_HEAD, 0, NOW, token)
  else
    if wakes > 0 then call('DEL', BELL) end
    reply[1] = struct.pack(LEASED_HEAD, first == math.huge and -1 or first - NOW, NOW, token)
  end
  return table.concat(reply)
end

local usual = lease_usual(tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[5] ~= '')
if usual then return usual end
