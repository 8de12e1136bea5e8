#!lua
-- Store drafts, all or none; say for each what was done.
-- KEYS  see lib.lua
-- ARGV  per draft: id, rule (K, R, or four characters), delay, priority, headers, body
-- Returns a letter per draft: c(reated), k(ept), u(pdated), b(locked); or, if an R met a live id,
-- the list of such ids, and nothing is stored.
-- Refused as a whole when the server is out of memory: it is the only script without allow-oom.
local taken = {}
for i = 1, #ARGV, DRAFT do
  if ARGV[i + 1] == 'R' and call('HEXISTS', MSG, ARGV[i]) == 1 then taken[#taken + 1] = ARGV[i] end
end
if #taken > 0 then return taken end

local number = next_numbers(#ARGV / DRAFT)
local answers, messages, ready = {}, {}, {}
for i = 1, #ARGV, DRAFT do
  number = number + 1
  if ARGV[i + 2] ~= '0' or call('HEXISTS', MSG, ARGV[i]) == 1 then
    answers[#answers + 1] = send(i, number)
  else -- the usual case: new, and due at once
    messages[#messages + 1] = ARGV[i]
    messages[#messages + 1] = pack_draft(i, number)
    ready[#ready + 1] = -ARGV[i + 3]
    ready[#ready + 1] = place(NOW, number, ARGV[i])
    answers[#answers + 1] = 'c'
  end
end
if #ready > 0 then
  call('HSET', MSG, unpack(messages))
  call('ZADD', READY, unpack(ready))
end
ring(#answers)
return table.concat(answers)
