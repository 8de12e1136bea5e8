#!lua flags=allow-oom
-- Delete messages that are as they were seen. They report to nobody.
-- KEYS  see layout.lua
-- ARGV  per message: what (L live, A archived), id, number (packed), due, priority, counters (packed), key,
--       headers, body; of an archived one the number says all
-- Returns the positions (from 0) of those that are not there like that.
guard_all()
local left, rings = {}, 0
for i = 1, #ARGV, 9 do
  local id, number = ARGV[i + 1], ARGV[i + 2]
  local m = ARGV[i] == 'L' and fetch(id)
  if ARGV[i] == 'A' and kept_record(id, number) then -- 1. check, 2. delete
    unkeep(id, number)
    forget_unread(id)
  elseif m and m.token == 0 and m.born == struct.unpack('>I8', number) and m.due == tonumber(ARGV[i + 3])
    and m.priority == tonumber(ARGV[i + 4]) and m.counters == ARGV[i + 5] and m.key == ARGV[i + 6]
    and m.headers == ARGV[i + 7] and m.body == ARGV[i + 8] then
    displace(m)
    call('HDEL', MSG, id)
    call('HDEL', META, id)
    if m.awaits > 0 then forget_unread(id) end -- 3. let go
    rings = rings + let_go(m.key, id)
  else
    left[#left + 1] = (i - 1) / 9
  end
end
ring(rings) -- 4. ring
return left
