#!lua flags=allow-oom
-- Take ready messages, in order, and hide them.
-- KEYS  see lib.lua
-- ARGV  limit, duration, holder
-- Returns microseconds until something else may become ready ('' if nothing will by itself, '0' if
-- more is ready now), then per lease: id, token and counters (packed), msg.
local limit, duration, holder = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local head = call('HMGET', HEAD, 'paused', 'token')
if head[1] then return {''} end
local token = math.max(tonumber(head[2] or '0'), NOW)
local DELIVERED = struct.pack(COUNTERS, 1, 0, 0, 0, 0, 0)
local STALLED = struct.pack(COUNTERS, 0, 0, 0, 1, 0, 0)
local TAKEN_OVER = struct.pack(COUNTERS, 1, 0, 0, 1, 0, 0)
local fresh_tail = pack_tail(holder, NO_NOTE)
promote(math.max(limit, 100))

local reply, taken = {''}, 0
while taken < limit do
  local members = call('ZRANGE', READY, 0, limit - taken - 1)
  if #members == 0 then break end
  local ids = {}
  for i = 1, #members do ids[i] = string.sub(members[i], 17) end
  local messages, metas = call('HMGET', MSG, unpack(ids)), call('HMGET', META, unpack(ids))
  local records, leases, seen, merging = {}, {}, 0, nil
  for i = 1, #ids do
    local id, meta = ids[i], metas[i]
    seen = i
    if messages[i] then -- else its body was deleted by hand: nothing is left to run
      local tail, counters = fresh_tail, DELIVERED
      if meta then
        local held, size = struct.unpack('>I8', meta), struct.unpack('>I2', meta, META_SIZE + 1)
        if held ~= 0 and call('HEXISTS', NEXT, id) == 1 then
          merging = id
          break
        end
        tail = pack_tail(holder, string.sub(meta, META_SIZE + 3 + size))
        counters = add(string.sub(meta, COUNTERS_AT, META_SIZE), held ~= 0 and TAKEN_OVER or DELIVERED)
      end
      token = token + 1
      taken = taken + 1
      local due, number = struct.unpack('>dI8', members[i])
      local priority = struct.unpack('>b', meta or messages[i], PRIORITY_AT)
      records[#records + 1] = id
      records[#records + 1] = struct.pack(META_HEAD, token, due, number, priority) .. counters .. tail
      leases[#leases + 1] = NOW + duration
      leases[#leases + 1] = id
      reply[#reply + 1] = id
      reply[#reply + 1] = struct.pack('>I8', token) .. counters
      reply[#reply + 1] = messages[i]
    end
  end
  call('ZREMRANGEBYRANK', READY, 0, seen - 1)
  if #records > 0 then
    call('HSET', META, unpack(records))
    call('ZADD', LEASED, unpack(leases))
  end
  if merging then -- taken over, with a successor: merged, it may be due later or stand elsewhere
    local m = fetch(merging)
    m.counters = add(m.counters, STALLED)
    give_back(m, m.due, m.number)
  end
end
if taken > 0 then call('HSET', HEAD, 'token', text(token)) end

if call('ZCARD', READY) > 0 then
  reply[1] = '0'
  ring(1) -- pass the wake-up on
else
  call('DEL', BELL)
  local first
  for _, key in ipairs({DELAYED, LEASED}) do
    local entry = call('ZRANGE', key, 0, 0, 'WITHSCORES')
    if #entry > 0 then first = math.min(first or math.huge, tonumber(entry[2])) end
  end
  if first then reply[1] = text(math.max(first - NOW, 1)) end
end
return reply
