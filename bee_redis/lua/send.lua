#!lua
-- Store drafts, all or none; say for each what was done.
-- KEYS  see lib.lua
-- ARGV  per draft: id, rule (K, R, or four characters), delay, priority, extras, headers, body
-- Returns a letter per draft: c(reated), k(ept), u(pdated), b(locked); or, if an R met a live id,
-- the list of such ids, and nothing is stored. In front of the letters stands '!' if nobody has said
-- yet (list.lua) that the queue's name is in the registry.
-- Refused as a whole when the server is out of memory: it is the only script without allow-oom.
local usual, taken, all_usual = {}, {}, true
for i = 1, #ARGV, DRAFT do
  local live = call('HEXISTS', MSG, ARGV[i]) == 1
  if live and ARGV[i + 1] == 'R' then taken[#taken + 1] = ARGV[i] end
  usual[i] = not live and ARGV[i + 2] == '0' and ARGV[i + 4] == ''
  all_usual = all_usual and usual[i]
end
if #taken > 0 then return taken end
local head = call('HMGET', HEAD, 'listed', 'number', 'created')
guard('ZCARD', READY)
guard('HLEN', META)
guard('LLEN', BELL)
if not all_usual then
  guard('ZCARD', DELAYED, LEASED, LISTS)
  guard('HLEN', NEXT)
end

local number = math.max(tonumber(head[2] or '0') or 0, NOW)
local answers, ids, messages, ready = {head[1] and '' or '!'}, {}, {}, {}
for i = 1, #ARGV, DRAFT do
  number = number + 1
  if not usual[i] then
    answers[#answers + 1] = send(i, number)
  else -- the usual case: new, and due at once
    ids[#ids + 1] = ARGV[i]
    messages[#messages + 1] = ARGV[i]
    messages[#messages + 1] = pack_draft(i, number)
    ready[#ready + 1] = -ARGV[i + 3]
    ready[#ready + 1] = place(NOW, number, ARGV[i])
    answers[#answers + 1] = 'c'
  end
end
if #ready > 0 then
  call('HDEL', META, unpack(ids)) -- as `create` does
  call('HSET', MSG, unpack(messages))
  call('ZADD', READY, unpack(ready))
end
created = (tonumber(head[3] or '0') or 0) + created + #ids
call('HSET', HEAD, 'number', text(number), 'created', text(created))
ring(#answers - 1)
return table.concat(answers)
