#!lua flags=allow-oom
-- Move the message of each id that was archived last back into the queue, as a fresh one.
-- KEYS  see lib.lua
-- ARGV  ids
-- Returns the positions (from 0) of the ids that were not restored.
local missing = {}
for i = 1, #ARGV do
  local id = ARGV[i]
  local record = call('HGET', KEPT, id)
  if not record or call('HEXISTS', MSG, id) == 1 then
    missing[#missing + 1] = i - 1
  else
    local size = struct.unpack('>I4', record, 9)
    local _, _, _, priority = struct.unpack(META_HEAD, string.sub(record, 13, 12 + size))
    local m = unpack_msg(unkeep(id, string.sub(record, 13 + size, 20 + size)))
    m.number, m.sent_at, m.due, m.priority = next_numbers(1) + 1, NOW, NOW, priority
    create(id, pack_msg(m))
  end
end
ring(#ARGV - #missing)
return missing
