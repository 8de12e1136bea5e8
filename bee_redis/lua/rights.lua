#!lua flags=no-writes,allow-oom
-- Which commands the user of this connection may not send. It touches no key, and stands alone:
-- nothing is put in front of it.
-- KEYS  none
-- ARGV  per command: its name, a key
-- Returns the names, also of commands that the server does not have.
local missing = {}
if not redis.acl_check_cmd then return missing end -- a server that cannot tell
for i = 1, #ARGV, 2 do
  local known, may = pcall(redis.acl_check_cmd, ARGV[i], ARGV[i + 1], ARGV[i + 1])
  if not (known and may) then missing[#missing + 1] = ARGV[i] end
end
return missing
