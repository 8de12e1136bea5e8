#!lua flags=allow-oom
-- Take ready messages, in order, and hide them.
-- KEYS  see layout.lua
-- ARGV  limit, duration, holder, how many may hold a key ('' any number), and two rates, of the queue and
--       of each key, as times and per ('' if there is none); and, if not every token may be given, n and k:
--       then only every n-th, beginning with k (the parts of a spread queue share the tokens so)
-- Returns one string: microseconds until something else may become ready (-1 if nothing will by itself, 0
-- if more is ready now), the time, the token before the first one (each is one more than the last, or n),
-- then per lease the lengths of what follows: id, counters (none: it is the first delivery), msg.
-- The usual lease does not come as far as this: see lease_usual.lua.
local limit, duration, holder = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local per_key, times, per = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local key_times, key_per = tonumber(ARGV[7]), tonumber(ARGV[8])
local head = call('HMGET', HEAD, 'paused', 'token')
if head[1] then return struct.pack(LEASED_HEAD, -1, NOW, NOW) end
local successors = call('HLEN', NEXT) > 0
guard('LLEN', BELL)
guard('HLEN', MSG, META)
local keyed = call('ZCARD', LISTS) > 0 -- whether somebody may hold a key, or be parked for one
local token = math.max(whole(head[2]), NOW)
local leased_at = token > NOW and NOW or 0 -- to be written down if the token does not say it
token = aligned(token)
local first_token, until_then = token, text(NOW + duration)
local STALLED = struct.pack(COUNTERS, 0, 0, 0, 1, 0, 0)
local TAKEN_OVER = struct.pack(COUNTERS, 1, 0, 0, 1, 0, 0)
local SWEPT_LEASE = 30000000
local fresh_tail = pack_tail(holder, NO_NOTE)
local told -- the functions of history.lua, once they are needed
if leased_at > 0 then
  told = history()
  local rest = told.read('')
  rest.leased_at = leased_at
  fresh_tail = fresh_tail .. told.pack(rest)
end
promote(math.max(limit, 100))
if keyed then wake() end

-- A message whose msg was deleted by hand: nothing is left to run, but a successor may follow.
local function bury(id, key)
  call('HDEL', MSG, id)
  call('HDEL', META, id)
  succeed(id)
  let_go(key, id)
end

-- The priority in a msg, and whether it has extras; both packed.
local function told_by(message)
  local at = spot_size(message, 1) + 1
  if string.byte(message, at) == 0 then return '\0', '\0' end
  local has_extras = string.sub(message, at + FULL_SIZE - 1, at + FULL_SIZE) ~= '\0\0'
  return string.sub(message, at + 1, at + 1), has_extras and '\1' or '\0'
end

-- Whether a message has to wait for its key. What is found out about a key that is full holds to the end;
-- but one that holds it itself, and is taken over, is a delivery like any other.
local full = {}
local function is_passed_over(key, id)
  keyed = true
  local holds = full[key] == 'held' and call('ZSCORE', LISTS, 'h' .. key .. '\0' .. id)
  if not full[key] or holds then
    local room, again = room_for(key, key_times, key_per)
    if room < 1 then
      full[key] = 'rate'
      call('ZADD', LISTS, 0, 'w' .. struct.pack('>d', again) .. key)
    elseif not holds and per_key and count_holders(key, per_key) >= per_key then
      full[key] = 'held'
      holds = call('ZSCORE', LISTS, 'h' .. key .. '\0' .. id)
    end
  end
  return full[key] == 'rate' or full[key] == 'held' and not holds
end

local reply, taken, most = {''}, 0, math.min(limit, (room_for('', times, per)))
local looks, passes = 2 * limit + 100, 10000 -- so much may stale places cost, and those that are passed over
local page = most
while taken < most and looks > 0 and passes > 0 do
  local members = call('ZRANGE', READY, 0, page - 1)
  if #members == 0 then break end
  local ids, keys, at, over, chosen, seen = {}, {}, {}, {}, {}, 0
  for i = 1, #members do
    local id, key = read_name(name_at(members[i]))
    if key ~= '' and chosen[key] then break end -- it has to be seen what becomes of the one before
    if key ~= '' and is_passed_over(key, id) then
      over[#over + 1] = i
    elseif #ids == most - taken then
      break
    else
      ids[#ids + 1] = id
      at[#ids] = i
      keys[#ids] = key
      if key ~= '' then chosen[key] = true end
    end
    seen = i
  end
  looks, passes = looks - #ids, passes - #over
  page = #over > 0 and 1000 or most - taken
  local messages, metas = {}, {}
  if #ids > 0 then messages, metas = call('HMGET', MSG, unpack(ids)), call('HMGET', META, unpack(ids)) end
  local records, leases, gone, held, merging = {}, {}, {}, {}, nil
  for i = 1, #ids do
    local id, message, meta = ids[i], messages[i], metas[i]
    local size = spot_size(members[at[i]], 1)
    local begins = string.sub(members[at[i]], 1, size)
    if not is_meta(meta) then meta = nil end
    local from = meta and META_SIZE or 0 -- behind this stands the spot that holds
    if not is_msg(message) then
      gone[#gone + 1] = i
    elseif begins == string.sub(meta or message, from + 1, from + size) then -- else the place is stale
      local tail, counters = fresh_tail, ONCE
      if meta then
        local token_before, _, behind = struct.unpack('>I8', meta), held_by(meta)
        if token_before ~= 0 and successors and call('HEXISTS', NEXT, id) == 1 then
          merging, seen = id, at[i]
          break
        end
        if token_before == 0 and leased_at == 0 then
          tail = pack_tail(holder, string.sub(meta, behind))
        else
          told = told or history()
          local m = fetch(id)
          if token_before ~= 0 then told.add(m, 'stalled', '', m.due) end
          local rest = told.read(m.rest)
          rest.leased_at = leased_at
          tail = pack_tail(holder, m.note .. told.pack(rest))
        end
        counters = add(string.sub(meta, COUNTERS_AT, COUNTERS_END), token_before ~= 0 and TAKEN_OVER or ONCE)
      end
      token = token + stride
      taken = taken + 1
      records[#records + 1] = id
      local priority, extra = told_by(message)
      if meta then priority = string.sub(meta, 9, 9) end
      records[#records + 1] = struct.pack('>I8', token) .. priority .. counters .. extra .. begins .. tail
      leases[#leases + 1] = until_then
      leases[#leases + 1] = id
      reply[#reply + 1] = struct.pack(LEASE, #id, #counters, #message) .. counters .. id
      reply[#reply + 1] = message
      if times then note_delivery('', token, per) end
      if keys[i] ~= '' then
        held[#held + 1] = keys[i]
        call('ZADD', LISTS, 0, 'h' .. keys[i] .. '\0' .. id)
        if key_times then note_delivery(keys[i], token, key_per) end
      end
    end
  end
  park(members, over, seen)
  call('ZREMRANGEBYRANK', READY, 0, seen - 1)
  if #records > 0 then
    call('HSET', META, unpack(records))
    call('ZADD', LEASED, unpack(leases))
  end
  for _, i in ipairs(gone) do bury(ids[i], keys[i]) end
  if merging then -- taken over, with a successor: merged, it may be due later or stand elsewhere
    local m = fetch(merging)
    full[m.key] = nil
    m.counters = add(m.counters, STALLED)
    told = told or history()
    told.add(m, 'stalled', '', m.due)
    give_back(m, m.due, m.number)
  end
  for _, key in ipairs(held) do -- there may be room for another
    if not is_passed_over(key, '') then unpark(key) end
  end
end
if taken > 0 then call('HSET', HEAD, 'token', text(token)) end
if key_times then forget_deliveries(2 * limit + 100, key_times, key_per) end
count_created()

-- More messages than places: somebody deleted a place by hand. Nothing is lost by that, but it has to
-- be looked for, a page at a time, when there is nothing better to do.
local sweeping = false
if call('ZCARD', READY) == 0
  and call('HLEN', MSG) > call('ZCARD', DELAYED) + call('ZCARD', LEASED) + call('ZLEXCOUNT', LISTS, '[p', '(q') then
  local cursor = string.match(call('HGET', HEAD, 'cursor') or '', '^%d+$') or '0'
  local page = call('HSCAN', MSG, #cursor < 20 and cursor or '0', 'COUNT', 250)
  for i = 1, #page[2], 2 do
    local m = fetch(page[2][i])
    if not m then
      bury(page[2][i], '')
    elseif not call('ZSCORE', LEASED, m.id)
      and not call('ZSCORE', DELAYED, delayed_place(m.priority, m.number, m.name))
      and not call('ZSCORE', READY, place(m.due, m.number, m.name))
      and not call('ZSCORE', LISTS, parked_place(m)) then
      if m.token == 0 then
        stand(m.name, m.due, m.number, m.priority)
      else -- its holder may be at work, and extend it: it gets a moment for that
        call('ZADD', LEASED, NOW + SWEPT_LEASE, m.id)
      end
    end
  end
  call('HSET', HEAD, 'cursor', page[1])
  sweeping = page[1] ~= '0'
end

local left, quiet_until = room_for('', times, per)
local waiting, pause = call('ZCARD', READY) > 0, -1
if waiting and left > 0 then
  pause = 0
  ring(1) -- pass the wake-up on
else
  call('DEL', BELL)
  local first = sweeping and NOW + 10000 or waiting and quiet_until or keyed and wake() or nil
  for _, key in ipairs({DELAYED, LEASED}) do
    local entry = call('ZRANGE', key, 0, 0, 'WITHSCORES')
    if #entry > 0 then first = math.min(first or math.huge, tonumber(entry[2])) end
  end
  if first then pause = math.max(first - NOW, 1) end
end
reply[1] = struct.pack(LEASED_HEAD, pause, NOW, first_token)
return table.concat(reply)
