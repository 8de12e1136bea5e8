#!lua flags=no-writes,allow-oom
-- Which commands the user of this connection may not send. It touches no key, and stands alone:
-- lib.lua is not put in front of it.
-- KEYS  none
-- ARGV  per command: its name, a key
-- Returns the names.
local missing = {}
for i = 1, #ARGV, 2 do
  if not redis.acl_check_cmd(ARGV[i], ARGV[i + 1], ARGV[i + 1]) then missing[#missing + 1] = ARGV[i] end
end
return missing
