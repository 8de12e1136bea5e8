#!lua flags=allow-oom
-- Who holds leases: a page of them; and who has announced itself.
-- KEYS  see layout.lua
-- ARGV  limit, and to go on: the rank
-- Returns name, since, until, about, ... of those who have announced themselves (with the first page only);
-- and end of lease, holder, ... for leases that have not run out; of some the holder is not known, because
-- its record was deleted by hand: nil.
local reply, announced = {}, {}
if ARGV[2] == '0' then
  local workers = call('HGETALL', WORKERS)
  for i = 1, #workers, 2 do
    if #workers[i + 1] >= WORKER_SIZE then
      local since, until_then = struct.unpack(WORKER, workers[i + 1])
      if until_then > NOW and until_then < 2^53 and since > -2^53 and since < 2^53 then
        local about = string.sub(workers[i + 1], WORKER_SIZE + 1)
        for _, field in ipairs({workers[i], text(since), text(until_then), about}) do
          announced[#announced + 1] = field
        end
      end
    end
  end
end
local found = call('ZRANGEBYSCORE', LEASED, '(' .. text(NOW), '+inf', 'WITHSCORES', 'LIMIT', ARGV[2], ARGV[1])
for i = 1, #found, 2 do
  local meta = call('HGET', META, found[i])
  reply[#reply + 1] = found[i + 1]
  if is_meta(meta) then
    local first, behind = held_by(meta)
    reply[#reply + 1] = string.sub(meta, first, behind - 1)
  else
    reply[#reply + 1] = false
  end
end
return {announced, reply}
