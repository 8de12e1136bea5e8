#!lua flags=allow-oom
-- Delete some of what waits: ready, delayed and blocked. Leased messages are left alone, also those
-- whose lease ran out but which nobody has taken over.
-- KEYS  see layout.lua
-- ARGV  limit, and to go on in ready: score, member
-- Returns how many were deleted, whether there may be more, and where to go on (score, member).
guard('ZCARD', READY, DELAYED, LISTS)
guard('HLEN', MSG, META, NEXT, KEPT)
local limit = tonumber(ARGV[1])
local purged = 0
local reports = call('ZLEXCOUNT', LISTS, '[r', '(s') > 0
for _, id in ipairs(call('HRANDFIELD', NEXT, limit)) do
  call('HDEL', NEXT, id)
  purged = purged + 1
end
local function delete(ids)
  if #ids == 0 then return end
  call('HDEL', MSG, unpack(ids))
  call('HDEL', META, unpack(ids))
  purged = purged + #ids
  for i = 1, reports and #ids or 0 do forget_unread(ids[i]) end
end
local function is_held(id)
  local meta = call('HGET', META, id)
  return meta and #meta >= META_LEAST and struct.unpack('>I8', meta) ~= 0
end
local ids = {}
local parked = call('ZRANGEBYLEX', LISTS, '[p', '(q', 'LIMIT', 0, limit)
for _, member in ipairs(parked) do
  local key, _, _, id = read_parked(member)
  if is_held(id) then
    unpark(key) -- it ran out, and is not ours to delete
  else
    ids[#ids + 1] = id
    call('ZREM', LISTS, member)
  end
end
delete(ids)
-- As long as some are parked, those that stand in the line for them stay: the next page may never come.
if #parked == limit then return {purged, 1, ARGV[2], ARGV[3]} end
ids = {}
local delayed = call('ZRANGE', DELAYED, 0, limit - 1)
for i, member in ipairs(delayed) do ids[i] = read_name(string.sub(member, 10)) end
if #ids > 0 then call('ZREMRANGEBYRANK', DELAYED, 0, #ids - 1) end
delete(ids)
local start = rank_after(READY, ARGV[2], ARGV[3])
local ready, gone = call('ZRANGE', READY, start, start + limit - 1, 'WITHSCORES'), {}
ids = {}
for i = 1, #ready, 2 do
  local id = read_name(name_at(ready[i]))
  if not is_held(id) then
    ids[#ids + 1] = id
    gone[#gone + 1] = ready[i]
  end
end
if #gone > 0 then call('ZREM', READY, unpack(gone)) end
delete(ids)
local more = #ready == 2 * limit or #delayed == limit or #parked == limit or call('HLEN', NEXT) > 0
return {purged, more and 1 or 0, ready[#ready] or ARGV[2], ready[#ready - 1] or ARGV[3]}
