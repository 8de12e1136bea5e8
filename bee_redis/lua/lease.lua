#!lua flags=allow-oom
-- Take ready messages, in order, and hide them.
-- KEYS  see lib.lua
-- ARGV  limit, duration, holder
-- Returns microseconds until something else may become ready ('' if nothing will by itself, '0' if
-- more is ready now), then per lease: id, token and counters (packed), msg.
local limit, duration, holder = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local head = call('HMGET', HEAD, 'paused', 'token')
if head[1] then return {''} end
local successors = call('HLEN', NEXT) > 0
guard('LLEN', BELL)
guard('HLEN', MSG, META)
local token = math.max(tonumber(head[2] or '0') or 0, NOW)
local DELIVERED = struct.pack(COUNTERS, 1, 0, 0, 0, 0, 0)
local STALLED = struct.pack(COUNTERS, 0, 0, 0, 1, 0, 0)
local TAKEN_OVER = struct.pack(COUNTERS, 1, 0, 0, 1, 0, 0)
local SWEPT_LEASE = 30000000
local fresh_tail = pack_tail(holder, NO_NOTE)
promote(math.max(limit, 100))

-- A message whose msg was deleted by hand: nothing is left to run, but a successor may follow.
local function bury(id)
  call('HDEL', MSG, id)
  call('HDEL', META, id)
  local rule, blob = take_next(id)
  if rule then create(id, blob) end
end

local reply, taken, looks = {''}, 0, 2 * limit + 100 -- stale places may cost this much, and no more
while taken < limit and looks > 0 do
  local members = call('ZRANGE', READY, 0, limit - taken - 1)
  if #members == 0 then break end
  looks = looks - #members
  local ids = {}
  for i = 1, #members do ids[i] = string.sub(members[i], 17) end
  local messages, metas = call('HMGET', MSG, unpack(ids)), call('HMGET', META, unpack(ids))
  local records, leases, gone, seen, merging = {}, {}, {}, 0, nil
  for i = 1, #ids do
    local id, message, meta = ids[i], messages[i], metas[i]
    seen = i
    if meta and #meta < META_LEAST then meta = nil end
    if not message or #message < MSG_SIZE then
      gone[#gone + 1] = id
    elseif string.sub(members[i], 1, 16) == (meta and string.sub(meta, 9, 24)
      or string.sub(message, 17, 24) .. string.sub(message, 1, 8)) then -- else the place is stale
      local tail, counters = fresh_tail, DELIVERED
      if meta then
        local held, size = struct.unpack('>I8', meta), struct.unpack('>I2', meta, META_SIZE + 1)
        if held ~= 0 and successors and call('HEXISTS', NEXT, id) == 1 then
          merging = id
          break
        end
        tail = pack_tail(holder, string.sub(meta, META_SIZE + 3 + size))
        counters = add(string.sub(meta, COUNTERS_AT, META_SIZE), held ~= 0 and TAKEN_OVER or DELIVERED)
      end
      token = token + 1
      taken = taken + 1
      records[#records + 1] = id
      records[#records + 1] = struct.pack('>I8', token) .. string.sub(members[i], 1, 16)
        .. string.sub(meta or message, PRIORITY_AT, PRIORITY_AT) .. counters .. tail
      leases[#leases + 1] = NOW + duration
      leases[#leases + 1] = id
      reply[#reply + 1] = id
      reply[#reply + 1] = struct.pack('>I8', token) .. counters
      reply[#reply + 1] = message
    end
  end
  call('ZREMRANGEBYRANK', READY, 0, seen - 1)
  if #records > 0 then
    call('HSET', META, unpack(records))
    call('ZADD', LEASED, unpack(leases))
  end
  for _, id in ipairs(gone) do bury(id) end
  if merging then -- taken over, with a successor: merged, it may be due later or stand elsewhere
    local m = fetch(merging)
    m.counters = add(m.counters, STALLED)
    give_back(m, m.due, m.number)
  end
end
if taken > 0 then call('HSET', HEAD, 'token', text(token)) end

-- More messages than places: somebody deleted a place by hand. Nothing is lost by that, but it has to
-- be looked for, a page at a time, when there is nothing better to do.
local sweeping = false
if call('ZCARD', READY) == 0 and call('HLEN', MSG) > call('ZCARD', DELAYED) + call('ZCARD', LEASED) then
  local page = call('HSCAN', MSG, call('HGET', HEAD, 'cursor') or '0', 'COUNT', 250)
  for i = 1, #page[2], 2 do
    local m = fetch(page[2][i])
    if not m then
      bury(page[2][i])
    elseif not call('ZSCORE', LEASED, m.id)
      and not call('ZSCORE', DELAYED, delayed_place(m.priority, m.number, m.id))
      and not call('ZSCORE', READY, place(m.due, m.number, m.id)) then
      if m.token == 0 then
        stand(m.id, m.due, m.number, m.priority)
      else -- its holder may be at work, and extend it: it gets a moment for that
        call('ZADD', LEASED, NOW + SWEPT_LEASE, m.id)
      end
    end
  end
  call('HSET', HEAD, 'cursor', page[1])
  sweeping = page[1] ~= '0'
end

if call('ZCARD', READY) > 0 then
  reply[1] = '0'
  ring(1) -- pass the wake-up on
else
  call('DEL', BELL)
  local first = sweeping and NOW + 10000 or nil
  for _, key in ipairs({DELAYED, LEASED}) do
    local entry = call('ZRANGE', key, 0, 0, 'WITHSCORES')
    if #entry > 0 then first = math.min(first or math.huge, tonumber(entry[2])) end
  end
  if first then reply[1] = text(math.max(first - NOW, 1)) end
end
return reply
