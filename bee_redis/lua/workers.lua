#!lua flags=allow-oom
-- Who holds leases: a page of them.
-- KEYS  see layout.lua
-- ARGV  limit, and to go on: the rank
-- Returns end of lease, holder, ... for leases that have not run out; of some the holder is not known,
-- because its record was deleted by hand: nil.
local reply = {}
local found = call('ZRANGEBYSCORE', LEASED, '(' .. text(NOW), '+inf', 'WITHSCORES', 'LIMIT', ARGV[2], ARGV[1])
for i = 1, #found, 2 do
  local meta = call('HGET', META, found[i])
  local known = meta and #meta >= META_LEAST
  local size = known and struct.unpack('>I2', meta, META_SIZE + 1)
  reply[#reply + 1] = found[i + 1]
  reply[#reply + 1] = known and string.sub(meta, META_SIZE + 3, META_SIZE + 2 + size)
end
return reply
