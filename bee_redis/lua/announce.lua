#!lua flags=allow-oom
-- Somebody says that it works on this queue, or that it does no longer.
-- KEYS  see layout.lua
-- ARGV  name, for how long (0: no longer), what it says of itself
-- Those who were silent for too long are removed, a hundred a time. The key expires with the last one, so
-- an abandoned queue leaves nothing behind.
local name, duration, since = ARGV[1], tonumber(ARGV[2]), NOW
local found = call('HGET', WORKERS, name)
if found and #found >= WORKER_SIZE then
  local first, until_then = struct.unpack(WORKER, found)
  if until_then > NOW then since = first end
end
if duration > 0 then
  call('HSET', WORKERS, name, struct.pack(WORKER, since, NOW + duration) .. ARGV[3])
  local left = math.ceil(duration / 1000)
  if left > call('PTTL', WORKERS) then call('PEXPIRE', WORKERS, text(left)) end
else
  call('HDEL', WORKERS, name)
end
local some = call('HRANDFIELD', WORKERS, 100, 'WITHVALUES')
for i = 1, #some, 2 do
  local known = #some[i + 1] >= WORKER_SIZE
  if not known or select(2, struct.unpack(WORKER, some[i + 1])) <= NOW then call('HDEL', WORKERS, some[i]) end
end
