#!lua flags=allow-oom
-- How messages ended, as far as it was to be kept.
-- KEYS  see layout.lua
-- ARGV  ids
-- Returns per id: note and result, packed; '' if there is none, or its time is over.
local reply = call('HMGET', RESULTS, unpack(ARGV))
for i = 1, #reply do
  local kept = reply[i] and #reply[i] >= 13 and struct.unpack('>d', reply[i]) > NOW
  reply[i] = kept and string.sub(reply[i], 9) or ''
end
return reply
