#!lua flags=allow-oom
-- Say, or find out, over how many shards a queue is spread. The mark stands where an unsharded queue of
-- that name would be, at each of its keys, as a value of a kind that no other script can take for its own:
-- so who does not know of the shards is refused (WRONGTYPE), and pays nothing for it.
-- KEYS  see layout.lua
-- ARGV  how many, '' to find out only, or 'none' to take the mark away
-- Returns how many, after that; 0 if there is no mark, -1 if there is a queue without shards.
local sets = {[READY] = true, [DELAYED] = true, [LEASED] = true, [ARCHIVE] = true, [OLDER] = true, [LISTS] = true}
local marked = redis.pcall('ZSCORE', HEAD, 'shards')
if type(marked) == 'table' then return -1 end -- an error: it is a queue's head
if marked and ARGV[1] == 'none' then
  call('UNLINK', unpack(KEYS))
  return 0
end
if marked then return tonumber(marked) end
if call('EXISTS', unpack(KEYS)) > 0 then return -1 end
if ARGV[1] == '' or ARGV[1] == 'none' then return 0 end
for _, key in ipairs(KEYS) do
  if sets[key] then call('HSET', key, 'shards', ARGV[1]) else call('ZADD', key, ARGV[1], 'shards') end
end
return tonumber(ARGV[1])
