#!lua flags=allow-oom
-- Count everything, from one moment.
-- KEYS  see layout.lua
-- ARGV  none
-- Returns ready, delayed, leased, blocked, paused (0, 1), the time for which the message longest due
-- has waited ('' if none is ready), how many were ever created, a token that none is greater than, then
-- reason, count, ... of the archive.
-- Cost: constant, but for one look per priority in use, and per key and priority that messages wait for
-- (no more than a thousand of them: beyond that the time is approximate).
local later = '(' .. text(NOW)
local delayed, leased = call('ZCOUNT', DELAYED, later, '+inf'), call('ZCOUNT', LEASED, later, '+inf')
local ready = math.max(call('HLEN', MSG) - delayed - leased, 0)
local oldest
local function older(due) if due >= 0 and (not oldest or due < oldest) then oldest = due end end
local score = '-inf'
while true do -- the first of each priority
  local first = call('ZRANGEBYSCORE', READY, score, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if #first == 0 then break end
  if #first[1] >= 8 then older((struct.unpack('>I8', first[1]))) end
  score = '(' .. first[2]
end
local after, found = '[p', nil
for _ = 1, 1000 do -- the first of each key and priority
  found = call('ZRANGEBYLEX', LISTS, after, '(q', 'LIMIT', 0, 1)[1]
  if not found then break end
  local at = string.find(found, '\0', 1, true) or #found + 1
  if #found >= at + 10 then older((struct.unpack('>I8', found, at + 3))) end
  after = '(' .. string.sub(found, 1, at + 2) .. '\255'
end
local due = call('ZRANGEBYSCORE', DELAYED, '-inf', NOW, 'WITHSCORES', 'LIMIT', 0, 1)
if #due > 0 then older(tonumber(due[2])) end
for _, id in ipairs(call('ZRANGEBYSCORE', LEASED, '-inf', NOW, 'LIMIT', 0, 100)) do
  local meta = call('HGET', META, id)
  if is_meta(meta) then older((read_spot(meta, META_SIZE + 1))) end
end

local reply = {ready, delayed, leased, call('HLEN', NEXT), call('HEXISTS', HEAD, 'paused'),
               oldest and text(NOW - oldest) or '', text(whole(call('HGET', HEAD, 'created'))),
               text(whole(call('HGET', HEAD, 'token') or NOW))} -- if there is none, the queue may have been dropped
local head = call('HGETALL', HEAD)
for i = 1, #head, 2 do
  if string.sub(head[i], 1, 7) == 'reason:' and whole(head[i + 1]) > 0 then
    reply[#reply + 1] = string.sub(head[i], 8)
    reply[#reply + 1] = text(whole(head[i + 1]))
  end
end
return reply
