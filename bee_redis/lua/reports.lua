#!lua flags=allow-oom
-- What was reported to a message, in the order of the ids.
-- KEYS  see layout.lua
-- ARGV  id, the id to go on behind ('' at the beginning), limit
-- Returns per report: id, then note and result, packed.
local prefix = 'r' .. ARGV[1] .. '\0'
local first = ARGV[2] == '' and '[' .. prefix or '(' .. prefix .. ARGV[2] .. '\1'
local found = call('ZRANGEBYLEX', LISTS, first, '(r' .. ARGV[1] .. '\1', 'LIMIT', 0, ARGV[3])
local reply = {}
for _, member in ipairs(found) do
  local at = string.find(member, '\0', #prefix + 1, true)
  if at then
    reply[#reply + 1] = string.sub(member, #prefix + 1, at - 1)
    reply[#reply + 1] = string.sub(member, at + 1)
  end
end
return reply
