#!lua flags=allow-oom
-- Hide held messages for a while from now.
-- KEYS  see layout.lua
-- ARGV  duration, then per receipt: id, token, how far it is, what was noticed ('' if
--       nothing was said)
-- Returns the positions (from 0) of the lost receipts. What they name is not touched.
guard('ZCARD', LEASED, READY, LISTS)
guard('HLEN', META)
local until_then, lost, told = NOW + ARGV[1], {}, nil
for i = 2, #ARGV, 4 do
  local id, meta = ARGV[i], call('HGET', META, ARGV[i])
  local token = meta and #meta >= META_LEAST and struct.unpack('>I8', meta) or 0
  if token == 0 or text(token) ~= ARGV[i + 1] then
    lost[#lost + 1] = (i - 2) / 4
  else
    if not call('ZSCORE', LEASED, id) then -- it had run out, and nobody took it over
      local m = fetch(id)
      if m then displace(m) end
    end
    call('ZADD', LEASED, until_then, id)
    local progress, remark = ARGV[i + 2], ARGV[i + 3]
    if progress ~= '' or remark ~= '' then
      local m = fetch(id)
      if m then
        told = told or history()
        local rest = told.read(m.rest)
        if progress ~= '' then rest.progress = progress end
        if remark ~= '' then rest.remark = remark end
        m.rest = told.pack(rest)
        call('HSET', META, id, pack_meta(m))
      end
    end
  end
end
return lost
