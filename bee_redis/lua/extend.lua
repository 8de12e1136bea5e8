#!lua flags=allow-oom
-- Hide held messages for a while from now.
-- KEYS  see layout.lua
-- ARGV  duration, then per receipt: id, token, how far it is ('' if nothing was said)
-- Returns the positions (from 0) of the lost receipts. What they name is not touched.
guard('ZCARD', LEASED, READY, LISTS)
guard('HLEN', META)
local until_then, lost = NOW + ARGV[1], {}
for i = 2, #ARGV, 3 do
  local id, meta = ARGV[i], call('HGET', META, ARGV[i])
  local token = meta and #meta >= META_LEAST and struct.unpack('>I8', meta) or 0
  if token == 0 or text(token) ~= ARGV[i + 1] then
    lost[#lost + 1] = (i - 2) / 3
  else
    if not call('ZSCORE', LEASED, id) then -- it had run out, and nobody took it over
      local m = fetch(id)
      if m then displace(m) end
    end
    call('ZADD', LEASED, until_then, id)
    if ARGV[i + 2] ~= '' then
      local m = fetch(id)
      if m then
        m.progress = ARGV[i + 2]
        call('HSET', META, id, pack_meta(m))
      end
    end
  end
end
return lost
