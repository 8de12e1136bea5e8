#!lua flags=allow-oom
-- The successors of some ids (of all, if none is given: only their ids).
-- KEYS  see layout.lua
-- ARGV  ids
-- Returns the ids that have one; or per given id its msg ('' if it has none any more).
if #ARGV == 0 then return call('HKEYS', NEXT) end
local reply = call('HMGET', NEXT, unpack(ARGV))
for i = 1, #reply do reply[i] = reply[i] and #reply[i] >= 4 + MSG_SIZE and string.sub(reply[i], 5) or '' end
return reply
