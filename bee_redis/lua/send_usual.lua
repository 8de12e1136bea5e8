-- The usual send: all drafts are new or are to be kept, and have no extras. It stands in front of lib.lua,
-- whose functions cost more to define than all of this costs to run; what is not usual is for send.lua.
local DRAFT_SIZE = tonumber(ARGV[1])
local live, is_usual, is_delayed = {}, true, false
for i = 2, #ARGV, DRAFT_SIZE do
  live[i] = call('HEXISTS', MSG, ARGV[i]) == 1
  if DRAFT_SIZE > 2 then
    if ARGV[i + 4] ~= '' or live[i] and ARGV[i + 1] ~= 'K' then is_usual = false end
    if ARGV[i + 2] ~= '0' then is_delayed = true end
  end
end
if is_usual then
  local head = call('HMGET', HEAD, 'listed', 'number', 'created')
  guard('ZCARD', READY)
  if is_delayed then guard('ZCARD', DELAYED) end
  local wakes = call('LLEN', BELL)
  local number = math.max(whole(head[2]), NOW)
  local answers, ids, messages, ready, delayed, count = {head[1] and '' or '!'}, {}, {}, {}, {}, 0
  for i = 2, #ARGV, DRAFT_SIZE do
    number = number + 1
    if live[i] then
      answers[#answers + 1] = 'k'
    else
      local id, due, priority, level, headers = ARGV[i], NOW, '0', '0', ''
      if DRAFT_SIZE > 2 then
        due, priority, headers = NOW + ARGV[i + 2], ARGV[i + 3], ARGV[i + 5]
        level = priority == '0' and '0' or text(-priority)
      end
      count = count + 1
      ids[count] = id
      messages[2 * count - 1] = id
      local begins, plain = spot(due, number), due == NOW and priority == '0' and headers == ''
      messages[2 * count] = begins .. (plain and '\0' or pack_full(priority, NOW, '', headers))
        .. ARGV[i + DRAFT_SIZE - 1]
      if due <= NOW then
        ready[#ready + 1] = level
        ready[#ready + 1] = begins .. id
      else
        delayed[#delayed + 1] = text(due)
        delayed[#delayed + 1] = delayed_place(priority, number, id)
      end
      answers[#answers + 1] = 'c'
    end
  end
  if count > 0 then
    call('HDEL', META, unpack(ids)) -- as `create` does; first, because META has not been looked at
    call('HSET', MSG, unpack(messages))
    if #ready > 0 then call('ZADD', READY, unpack(ready)) end
    if #delayed > 0 then call('ZADD', DELAYED, unpack(delayed)) end
  end
  call('HSET', HEAD, 'number', text(number), 'created', text(whole(head[3]) + count))
  ring(count, wakes)
  return table.concat(answers)
end
