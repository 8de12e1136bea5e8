#!lua flags=allow-oom
-- The successors of some ids (of all, if none is given: only their ids).
-- KEYS  see layout.lua
-- ARGV  ids
-- Returns the ids that have one; or per given id its msg ('' if it has none any more).
if #ARGV == 0 then return call('HKEYS', NEXT) end
local reply = call('HMGET', NEXT, unpack(ARGV))
for i = 1, #reply do
  local msg = reply[i] and string.sub(reply[i], 5)
  reply[i] = is_msg(msg) and msg or ''
end
return reply
