#!lua flags=allow-oom
-- Move the message of each id that was archived last back into the queue, as a fresh one
-- that remembers its history.
-- KEYS  see layout.lua
-- ARGV  ids
-- Returns the positions (from 0) of the ids that were not restored.
guard_all()
local missing, told = {}, history()
for i = 1, #ARGV do
  local id = ARGV[i]
  local record = get_kept(id)
  if not record or fetch(id) then
    missing[#missing + 1] = i - 1
  else
    local _, meta, number = read_kept(record)
    local m = fetch(id, unkeep(id, number), meta)
    m.number, m.sent_at, m.due = next_numbers(1) + 1, NOW, NOW
    create(id, pack_msg(m))
    local rest = told.read(m.rest)
    if rest.count > 0 then
      rest.progress = ''
      m.token, m.counters, m.holder, m.note, m.rest = 0, ZERO, '', NO_NOTE, told.pack(rest)
      call('HSET', META, id, pack_meta(m))
    end
  end
end
count_created()
ring(#ARGV - #missing)
return missing
