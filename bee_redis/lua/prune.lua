#!lua flags=allow-oom
-- Delete archived messages, oldest first.
-- KEYS  see layout.lua
-- ARGV  least age, how many of the newest to keep, limit
-- Returns how many were deleted.
guard_all()
local spare = call('ZCARD', ARCHIVE) - tonumber(ARGV[2])
local most = math.min(spare, tonumber(ARGV[3]))
if most < 1 then return 0 end
local old = call('ZRANGEBYSCORE', ARCHIVE, '-inf', text(NOW - ARGV[1]), 'LIMIT', 0, most)
for _, member in ipairs(old) do
  local id = string.sub(member, 9)
  unkeep(id, string.sub(member, 1, 8))
  forget_unread(id)
end
return #old
