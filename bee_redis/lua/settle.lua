#!lua flags=allow-oom
-- End leases: delete, archive, or reschedule in place.
-- KEYS  see layout.lua
-- ARGV  the number of plain ones (delete it, nothing else to do), their tokens in one (packed), their ids;
--       then per settlement: id, token, what (D, A, R, F), delay, counters (packed), reason,
--       detail, result, for how long to keep it (0: not), summary, number of drafts, and its
--       drafts as in send.lua
-- Returns the positions (from 0) of the lost receipts. What they name is not touched at all, and
-- their drafts are not sent.
-- The usual settle does not come as far as this: see settle_usual.lua.
local lost, rings = {}, 0
local plain = tonumber(ARGV[1])
if 2 + plain < #ARGV then
  guard_all()
else
  guard('ZCARD', LEASED, READY, DELAYED, LISTS)
  guard('HLEN', MSG, HEAD)
  guard('LLEN', BELL)
end

-- Most jobs succeed, and leave nothing behind: those are ended together.
if plain > 0 then
  local ids, held = {}, {}
  for i = 1, plain do ids[i] = ARGV[i + 2] end
  local metas = call('HMGET', META, unpack(ids))
  local successors = call('HLEN', NEXT) > 0
  local seen = {}
  for i = 1, plain do
    local id, token = ids[i], metas[i] and #metas[i] >= META_LEAST and string.sub(metas[i], 1, 8)
    if not token or seen[id] or token ~= string.sub(ARGV[2], 8 * i - 7, 8 * i) then
      lost[#lost + 1] = i - 1
    else
      seen[id] = true
      local has_extras = string.byte(metas[i], META_SIZE) > 0
      if has_extras or successors and call('HEXISTS', NEXT, id) == 1 then
        local m = fetch(id) -- if not, it was deleted by hand
        if m then
          displace(m)
          rings = rings + finish(m, false, '')
        else
          call('ZREM', LEASED, id)
          call('HDEL', META, id)
          rings = rings + succeed(id)
        end
      else
        held[#held + 1] = id
      end
    end
  end
  if #held > 0 then
    if call('ZREM', LEASED, unpack(held)) < #held then -- some had run out, and nobody took them over
      for _, id in ipairs(held) do
        local m = fetch(id)
        if m then displace(m) end
      end
    end
    call('HDEL', MSG, unpack(held))
    call('HDEL', META, unpack(held))
  end
end

local at, position, told = 3 + plain, plain, nil
while at <= #ARGV do
  local id, what, drafts = ARGV[at], ARGV[at + 2], tonumber(ARGV[at + 10])
  local m = fetch(id)
  if not m or m.token == 0 or text(m.token) ~= ARGV[at + 1] then -- 1. check
    lost[#lost + 1] = position
  else
    m.counters = add(m.counters, ARGV[at + 4]) -- 2. count
    if ARGV[at + 5] ~= '' then m.note = pack_note(ARGV[at + 5], ARGV[at + 6]) end
    displace(m)
    local due = what == 'R' and NOW + ARGV[at + 3] or what == 'F' and m.due or 0
    if what ~= 'D' then
      told = told or history()
      told.add(m, ARGV[at + 5] == '' and 'ruled' or ARGV[at + 5], ARGV[at + 9], due)
    end
    if what == 'D' or what == 'A' then -- 3. dispose, 4. succeed
      rings = rings + finish(m, what == 'A', ARGV[at + 7])
      if ARGV[at + 8] ~= '0' then remember(m, ARGV[at + 7], ARGV[at + 8]) end
    elseif what == 'F' then
      give_back(m, due, m.number)
      rings = rings + 1
    else
      give_back(m, due, next_numbers(1) + 1)
      rings = rings + 1
    end
    local number = next_numbers(drafts)
    for i = 1, drafts do send(at + 11 + (i - 1) * DRAFT, number + i) end -- 5. send
    rings = rings + drafts
  end
  at = at + 11 + drafts * DRAFT
  position = position + 1
end
count_created()
ring(rings) -- 6. ring
return lost
