#!lua
-- Store drafts, all or none; say for each what was done.
-- KEYS  see layout.lua
-- ARGV  how many arguments a draft has, then each: id, body (2), or a full one as in lib.lua (7)
-- Returns a letter per draft: c(reated), k(ept), u(pdated), b(locked); or, if an R met a live id,
-- the list of such ids, and nothing is stored. In front of the letters stands '!' if nobody has said
-- yet (list.lua) that the queue's name is in the registry.
-- Refused as a whole when the server is out of memory: it, send_one.lua and adopt.lua are the only scripts without
-- allow-oom. The usual drafts do not come as far as this: see send_usual.lua.
local taken = {}
for i = 2, #ARGV, DRAFT do
  if live[i] and ARGV[i + 1] == 'R' then taken[#taken + 1] = ARGV[i] end
end
if #taken > 0 then return taken end
local listed = call('HEXISTS', HEAD, 'listed') == 1
guard('ZCARD', READY, DELAYED, LEASED, LISTS)
guard('HLEN', META, NEXT)
guard('LLEN', BELL)

local number = next_numbers((#ARGV - 1) / DRAFT)
local answers = {listed and '' or '!'}
for i = 2, #ARGV, DRAFT do
  number = number + 1
  answers[#answers + 1] = send(i, number)
end
count_created()
ring(#answers - 1)
return table.concat(answers)
