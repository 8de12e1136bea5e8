#!lua flags=allow-oom
-- Hide held messages for a while from now.
-- KEYS  see lib.lua
-- ARGV  duration, then per receipt: id, token
-- Returns the positions (from 0) of the lost receipts. What they name is not touched.
guard('ZCARD', LEASED, READY)
local until_then, lost = NOW + ARGV[1], {}
for i = 2, #ARGV, 2 do
  local id, meta = ARGV[i], call('HGET', META, ARGV[i])
  local token, due, number = 0, 0, 0
  if meta and #meta >= META_LEAST then token, due, number = struct.unpack(META_HEAD, meta) end
  if token == 0 or text(token) ~= ARGV[i + 1] then
    lost[#lost + 1] = i / 2 - 1
  elseif call('ZADD', LEASED, until_then, id) == 1 then
    call('ZREM', READY, place(due, number, id)) -- it had run out, and nobody took it over
  end
end
return lost
