#!lua flags=allow-oom
-- Move the message of each id that was archived last back into the queue, as a fresh one.
-- KEYS  see layout.lua
-- ARGV  ids
-- Returns the positions (from 0) of the ids that were not restored.
guard_all()
local missing = {}
for i = 1, #ARGV do
  local id = ARGV[i]
  local record = get_kept(id)
  if not record or fetch(id) then
    missing[#missing + 1] = i - 1
  else
    local _, meta, number = read_kept(record)
    local priority = struct.unpack('>b', meta, PRIORITY_AT)
    local m = unpack_msg(unkeep(id, number))
    m.number, m.sent_at, m.due, m.priority = next_numbers(1) + 1, NOW, NOW, priority
    create(id, pack_msg(m))
  end
end
count_created()
ring(#ARGV - #missing)
return missing
