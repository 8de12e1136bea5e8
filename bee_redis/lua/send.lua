#!lua
-- Store drafts, all or none; say for each what was done.
-- KEYS  see lib.lua
-- ARGV  per draft: id, rule (K, R, or four characters), delay, priority, headers, body
-- Returns a letter per draft: c(reated), k(ept), u(pdated), b(locked); or, if an R met a live id,
-- the list of such ids, and nothing is stored. In front of the letters stands '!' if nobody has said
-- yet (list.lua) that the queue's name is in the registry.
-- Refused as a whole when the server is out of memory: it is the only script without allow-oom.
local live, taken, unusual = {}, {}, false
for i = 1, #ARGV, DRAFT do
  live[i] = call('HEXISTS', MSG, ARGV[i]) == 1
  if live[i] and ARGV[i + 1] == 'R' then taken[#taken + 1] = ARGV[i] end
  unusual = unusual or live[i] or ARGV[i + 2] ~= '0'
end
if #taken > 0 then return taken end
local listed = call('HEXISTS', HEAD, 'listed') == 1
guard('ZCARD', READY)
guard('HLEN', META)
guard('LLEN', BELL)
if unusual then
  guard('ZCARD', DELAYED, LEASED)
  guard('HLEN', NEXT)
end

local number = next_numbers(#ARGV / DRAFT)
local answers, ids, messages, ready = {listed and '' or '!'}, {}, {}, {}
for i = 1, #ARGV, DRAFT do
  number = number + 1
  if live[i] or ARGV[i + 2] ~= '0' then
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
ring(#answers - 1)
return table.concat(answers)
