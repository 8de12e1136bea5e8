#!lua flags=allow-oom
-- Delete or archive messages, whoever holds them.
-- KEYS  see layout.lua
-- ARGV  what (D, A), running (0, 1), then the ids
-- Returns the positions (from 0) of the ids that had nothing to cancel.
guard_all()
local archive, running = ARGV[1] == 'A', ARGV[2] == '1'
local missing, rings = {}, 0
for i = 3, #ARGV do
  local m = fetch(ARGV[i])
  if m and (m.token == 0 or running) then
    m.note = pack_note('cancelled', '')
    displace(m)
    if archive and m.token ~= 0 then history().add(m, 'cancelled', '', 0) end
    rings = rings + finish(m, archive, '') + (m.token ~= 0 and BELLS or 0) -- its holder may be among them
  else
    local rule, blob
    if m then rule, blob = take_next(m.id) end
    if not rule then
      missing[#missing + 1] = i - 3
    elseif archive then
      local s = unpack_msg(blob)
      s.id, s.born, s.blob, s.token, s.counters, s.holder = m.id, s.number, blob, 0, ZERO, ''
      s.note, s.rest = pack_note('cancelled', ''), ''
      keep(s)
    end
  end
end
count_created()
ring(rings)
return missing
