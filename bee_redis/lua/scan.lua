#!lua flags=allow-oom
-- A page of messages in one state.
-- KEYS  see layout.lua
-- ARGV  state (ready, delayed, leased, archived), limit, and to go on: score, member. Behind what stands
--       in the line come those that are parked, with a score of inf
-- Returns where to go on (score, member; '' at the end), then per message the id and the five
-- fields of get.lua. Or nothing: so much has fallen due that it has to be called again.
local state, limit = ARGV[1], tonumber(ARGV[2])
local key = ({ready = READY, delayed = DELAYED, leased = LEASED, archived = ARCHIVE})[state]
local newest_first = state == 'archived'
if promote(1000) then return {} end

local found, parked = {}, {}
if ARGV[3] ~= 'inf' then
  local start = rank_after(key, ARGV[3], ARGV[4], newest_first)
  found = call(newest_first and 'ZREVRANGE' or 'ZRANGE', key, start, start + limit, 'WITHSCORES')
end
if state == 'ready' and #found / 2 <= limit then
  local first = ARGV[3] == 'inf' and '(' .. ARGV[4] or '[p'
  parked = call('ZRANGEBYLEX', LISTS, first, '(q', 'LIMIT', 0, limit + 1 - #found / 2)
  for _, member in ipairs(parked) do
    found[#found + 1] = member
    found[#found + 1] = 'inf'
  end
end
local reply = {'', ''}
local last = math.min(#found, 2 * limit)
if #found > last then reply[1], reply[2] = found[last], found[last - 1] end

local function id_in(member, score)
  if score == 'inf' then return (select(4, read_parked(member))) end
  if state == 'ready' then return (read_name(name_at(member))) end
  if state == 'delayed' then return (read_name(string.sub(member, 10))) end
  return state == 'leased' and member or string.sub(member, 9)
end
for i = 1, last, 2 do
  local id = id_in(found[i], found[i + 1])
  local fields
  if newest_first then
    local record = kept_record(id, string.sub(found[i], 1, 8))
    fields = record and describe_kept(record)
  else
    local m = fetch(id)
    fields = m and describe(m)
  end
  if fields then
    reply[#reply + 1] = id
    for _, field in ipairs(fields) do reply[#reply + 1] = field end
  end
end
return reply
