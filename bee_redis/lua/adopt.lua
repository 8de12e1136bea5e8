#!lua
-- Take in messages as another store has shown them, and what was reported to them.
-- KEYS  see layout.lua
-- ARGV  no token from now on is as low as this; the number of messages; each message: id, archived_at (''
--       if it is live), msg and meta with no numbers yet (no meta: it has never been leased); then for each
--       that something was reported to: id, number of reports, and each report: id, then note and result, packed
-- Returns a letter per message: t(aken in) or h(ere already); in front of them '!' as in send.lua.
-- Refused as a whole when the server is out of memory, like send.lua.
guard_all()
local listed = call('HEXISTS', HEAD, 'listed') == 1
local beyond = tonumber(ARGV[1]) -- 1. outgrow
if beyond > whole(call('HGET', HEAD, 'token')) then call('HSET', HEAD, 'token', text(beyond)) end
local number = next_numbers(tonumber(ARGV[2]))

-- A record with the number in its spot, which begins there.
local function numbered(record, at)
  local due = read_spot(record, at)
  return string.sub(record, 1, at - 1) .. spot(due, number) .. string.sub(record, at + spot_size(record, at))
end

-- 2. take: a live one, unless its id is taken.
local function take(id, msg, meta)
  if fetch(id) then return false end
  number = number + 1
  if unpack_msg(msg).awaits > 0 then forget_reports(id) end
  create(id, numbered(msg, 1))
  if meta ~= '' then call('HSET', META, id, numbered(meta, META_SIZE + 1)) end
  return true
end

-- Whether an archived record is of that moment, and of a message sent when this one was.
local function is_same(record, archived_at, msg)
  if not record then return false end
  local at, _, _, kept = read_kept(record)
  return at == archived_at and unpack_msg(kept).sent_at == unpack_msg(msg).sent_at
end

-- 3. keep: an archived one, unless it is here already.
local function take_kept(id, archived_at, msg, meta)
  if is_same(get_kept(id), archived_at, msg) then return false end
  local from = older_place(id, archived_at, '')
  for _, place_of_it in ipairs(call('ZRANGEBYLEX', OLDER, '[' .. from, '[' .. from .. string.rep('\255', 8))) do
    if is_same(get_kept(older_field(id, string.sub(place_of_it, -8))), archived_at, msg) then return false end
  end
  number = number + 1
  keep_record(id, struct.pack('>I8', number), archived_at, numbered(meta, META_SIZE + 1), numbered(msg, 1))
  return true
end

-- 4. hear: add reports to what a message has heard, if one is left that can read them. One that has never been
-- delivered is due when it has heard all that it awaits.
local function hear(id, first, count)
  local to = fetch(id)
  local awaits = to and to.awaits or 0
  if awaits == 0 and call('HEXISTS', KEPT, id) == 0 then return 0 end
  local before = call('ZLEXCOUNT', LISTS, within('r' .. id))
  for i = first, first + 2 * count - 2, 2 do
    local member = 'r' .. id .. '\0' .. ARGV[i]
    if call('ZLEXCOUNT', LISTS, within(member)) == 0 then call('ZADD', LISTS, 0, member .. '\0' .. ARGV[i + 1]) end
  end
  if before >= awaits or call('ZLEXCOUNT', LISTS, within('r' .. id)) < awaits or to.token ~= 0
    or to.due <= NOW or struct.unpack('>I4', to.counters) > 0 then return 0 end
  displace(to)
  to.due, to.number = NOW, next_numbers(1) + 1
  enter(to)
  return 1
end

local at, rings, answers = 3, 0, {listed and '' or '!'}
for _ = 1, tonumber(ARGV[2]) do
  local id, archived_at, msg, meta = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2], ARGV[at + 3]
  local taken
  if archived_at then taken = take_kept(id, archived_at, msg, meta) else taken = take(id, msg, meta) end
  answers[#answers + 1] = taken and 't' or 'h'
  at = at + 4
end
while at <= #ARGV do
  local count = tonumber(ARGV[at + 1])
  rings = rings + hear(ARGV[at], at + 2, count)
  at = at + 2 + 2 * count
end
rings = rings + created
count_created()
ring(rings) -- 5. ring
return table.concat(answers)
