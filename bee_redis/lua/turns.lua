-- Whose turn it is, among the messages of one key, and how fast a queue goes. It is put behind lib.lua,
-- in front of lease.lua; it does nothing by itself.

-- How many more deliveries of a key ('' for the whole queue) a rate allows, and when the next one.
local function room_for(key, times, per)
  if not times then return math.huge end
  local first, last = within('d' .. key)
  local old = struct.pack('>d', NOW - per) .. string.rep('\255', 8)
  call('ZREMRANGEBYLEX', LISTS, first, '(d' .. key .. '\0' .. old)
  local room = times - call('ZLEXCOUNT', LISTS, first, last)
  if room > 0 then return room end
  local nth = call('ZREVRANGEBYLEX', LISTS, last, first, 'LIMIT', times - 1, 1)[1]
  return 0, (#nth >= #key + 10 and struct.unpack('>d', nth, #key + 3) or NOW) + per
end

local function note_delivery(key, token, per)
  call('ZADD', LISTS, 0, 'd' .. key .. '\0' .. struct.pack('>dI8', NOW, token))
  if key ~= '' then call('ZADD', LISTS, 0, 'e' .. struct.pack('>d', NOW + per) .. key) end
end

-- Remove some of the deliveries that count no more, of keys that may never be seen again.
local function forget_deliveries(most, times, per)
  for _, entry in ipairs(call('ZRANGEBYLEX', LISTS, '[e', '(e' .. struct.pack('>d', NOW), 'LIMIT', 0, most)) do
    call('ZREM', LISTS, entry)
    room_for(string.sub(entry, 10), times, per)
  end
end

-- How many hold a key. Whoever no longer holds his message (deleted by hand) does not count.
local function count_holders(key, most)
  local first, last = within('h' .. key)
  if call('ZLEXCOUNT', LISTS, first, last) < most then return 0 end
  local count = 0
  for _, entry in ipairs(call('ZRANGEBYLEX', LISTS, first, last)) do
    local meta = call('HGET', META, string.sub(entry, #key + 3))
    if meta and #meta >= META_LEAST and struct.unpack('>I8', meta) ~= 0 then
      count = count + 1
    else
      call('ZREM', LISTS, entry)
    end
  end
  return count
end

-- Park those of the members of the line, up to the last one seen, that were passed over.
local function park(members, over, seen)
  local places = {}
  for _, i in ipairs(over) do
    if i <= seen then
      local size = spot_size(members[i], 1)
      local id, key = read_name(string.sub(members[i], size + 1))
      local level = 128 + call('ZSCORE', READY, members[i])
      local held = call('ZSCORE', LISTS, 'h' .. key .. '\0' .. id)
      places[#places + 1] = 0
      places[#places + 1] = 'p' .. key .. '\0' .. struct.pack('>I1I1', held and 0 or 1, level)
        .. string.sub(members[i], 1, size) .. id
    end
  end
  if #places > 0 then call('ZADD', LISTS, unpack(places)) end
end

-- Look again at keys whose time has come. Returns when the next one's will, if there is any.
local function wake()
  while true do
    local entry = call('ZRANGEBYLEX', LISTS, '[w', '(x', 'LIMIT', 0, 1)[1]
    if not entry then return end
    local at = #entry >= 9 and struct.unpack('>d', entry, 2) or 0
    if at > NOW then return at end
    call('ZREM', LISTS, entry)
    unpark(string.sub(entry, 10))
  end
end
