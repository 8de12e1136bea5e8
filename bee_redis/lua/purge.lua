#!lua flags=allow-oom
-- Delete some of what waits: ready, delayed and blocked. Leased messages are left alone, also those
-- whose lease ran out but which nobody has taken over.
-- KEYS  see lib.lua
-- ARGV  limit, rank of ready to begin at
-- Returns how many were deleted, whether there may be more, and the rank to go on at.
guard('ZCARD', READY, DELAYED)
guard('HLEN', MSG, META, NEXT)
local limit, skip = tonumber(ARGV[1]), tonumber(ARGV[2])
local purged = 0
for _, id in ipairs(call('HRANDFIELD', NEXT, limit)) do
  call('HDEL', NEXT, id)
  purged = purged + 1
end
local function delete(ids)
  if #ids == 0 then return end
  call('HDEL', MSG, unpack(ids))
  call('HDEL', META, unpack(ids))
  purged = purged + #ids
end
local delayed, ids = call('ZRANGE', DELAYED, 0, limit - 1), {}
for i, member in ipairs(delayed) do ids[i] = string.sub(member, 10) end
if #ids > 0 then call('ZREMRANGEBYRANK', DELAYED, 0, #ids - 1) end
delete(ids)
local ready, gone = call('ZRANGE', READY, skip, skip + limit - 1), {}
ids = {}
for _, member in ipairs(ready) do
  local id = string.sub(member, 17)
  local meta = call('HGET', META, id)
  if meta and #meta >= META_LEAST and struct.unpack('>I8', meta) ~= 0 then
    skip = skip + 1
  else
    ids[#ids + 1] = id
    gone[#gone + 1] = member
  end
end
if #gone > 0 then call('ZREM', READY, unpack(gone)) end
delete(ids)
return {purged, (#ready == limit or #delayed == limit or call('HLEN', NEXT) > 0) and 1 or 0, skip}
