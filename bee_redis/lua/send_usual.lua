-- The usual send: all drafts are new or are to be kept, and have no extras. It stands in front of lib.lua,
-- whose functions cost more to define than all of this costs to run; what is not usual is for send.lua.
local DRAFT_SIZE = tonumber(ARGV[1])
local live, is_usual = {}, true
for i = 2, #ARGV, DRAFT_SIZE do
  live[i] = call('HEXISTS', MSG, ARGV[i]) == 1
  if DRAFT_SIZE > 2 and (ARGV[i + 4] ~= '' or live[i] and ARGV[i + 1] ~= 'K') then is_usual = false end
end
if is_usual then
  local head = call('HMGET', HEAD, 'listed', 'number', 'created')
  guard('ZCARD', READY, DELAYED)
  guard('HLEN', META)
  guard('LLEN', BELL)
  local number = math.max(tonumber(head[2] or '0') or 0, NOW)
  local answers, ids, messages, ready, delayed = {head[1] and '' or '!'}, {}, {}, {}, {}
  for i = 2, #ARGV, DRAFT_SIZE do
    number = number + 1
    if live[i] then
      answers[#answers + 1] = 'k'
    else
      local id, delay, priority, headers = ARGV[i], '0', '0', ''
      if DRAFT_SIZE > 2 then delay, priority, headers = ARGV[i + 2], ARGV[i + 3], ARGV[i + 5] end
      ids[#ids + 1] = id
      messages[#messages + 1] = id
      messages[#messages + 1] = struct.pack(MSG_HEAD, number, NOW, NOW + delay, priority, #headers, 0)
        .. headers .. ARGV[i + DRAFT_SIZE - 1]
      if delay == '0' then
        ready[#ready + 1] = -priority
        ready[#ready + 1] = place(NOW, number, id)
      else
        delayed[#delayed + 1] = NOW + delay
        delayed[#delayed + 1] = delayed_place(priority, number, id)
      end
      answers[#answers + 1] = 'c'
    end
  end
  if #ids > 0 then
    call('HDEL', META, unpack(ids)) -- as `create` does
    call('HSET', MSG, unpack(messages))
    if #ready > 0 then call('ZADD', READY, unpack(ready)) end
    if #delayed > 0 then call('ZADD', DELAYED, unpack(delayed)) end
  end
  call('HSET', HEAD, 'number', text(number), 'created', text((tonumber(head[3] or '0') or 0) + #ids))
  ring(#ids)
  return table.concat(answers)
end

