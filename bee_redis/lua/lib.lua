-- The steps that the verbs are made of. It stands behind layout.lua, in front of most scripts; it does
-- nothing by itself. What has to do with the archive is in archive.lua.

local function guard_all()
  guard('ZCARD', READY, DELAYED, LEASED, ARCHIVE, OLDER, LISTS)
  guard('HLEN', MSG, META, NEXT, KEPT, HEAD, RESULTS)
  guard('LLEN', BELL)
end

local function parked_place(m)
  return 'p' .. m.key .. '\0' .. struct.pack('>I1I1', m.token == 0 and 1 or 0, 128 - m.priority)
    .. place(m.due, m.number, m.id)
end
-- The parts of one: key, 128 - priority, spot, id.
local function read_parked(found)
  local at = string.find(found, '\0', 1, true) or #found
  local last = at + 2 + spot_size(found, at + 3)
  return string.sub(found, 2, at - 1), string.byte(found, at + 2), string.sub(found, at + 3, last),
    string.sub(found, last + 1)
end

-- The ends of that part of a list which begins so.
local function within(prefix) return '[' .. prefix .. '\0', '(' .. prefix .. '\1' end

local function pack_extras(awaits, key, reports_to)
  if awaits == 0 and key == '' and reports_to == '' then return '' end
  return struct.pack(EXTRAS_HEAD, awaits, #key) .. key .. reports_to
end

local function pack_msg(m)
  local extras, begins = pack_extras(m.awaits, m.key, m.reports_to), spot(m.due, m.number)
  if m.priority == 0 and m.sent_at == m.due and extras == '' and m.headers == '' then
    return begins .. '\0' .. m.body
  end
  return begins .. pack_full(m.priority, m.sent_at, extras, m.headers) .. m.body
end

local function unpack_msg(blob)
  local due, number = read_spot(blob, 1)
  local at = spot_size(blob, 1) + 1
  local m = {number = number, sent_at = due, due = due, priority = 0, extra = 0,
             awaits = 0, key = '', reports_to = '', headers = ''}
  if string.byte(blob, at) == 1 then
    local size
    m.priority, m.sent_at, size, m.extra = struct.unpack(FULL_HEAD, blob, at + 1)
    at = at + FULL_SIZE
    if m.extra > 0 then
      local awaits, length = struct.unpack(EXTRAS_HEAD, blob, at + 1)
      m.awaits, m.key = awaits, string.sub(blob, at + 7, at + 6 + length)
      m.reports_to = string.sub(blob, at + 7 + length, at + m.extra)
    end
    m.headers = string.sub(blob, at + m.extra + 1, at + m.extra + size)
    at = at + m.extra + size
  end
  m.body = string.sub(blob, at + 1)
  return m
end

-- What stands for a message in its place; and what that says: the id, and the key ('' if there is none).
local function name_of(id, key) return key == '' and id or '\0' .. key .. '\0' .. id end
local function read_name(name)
  if string.byte(name) ~= 0 then return name, '' end
  local at = string.find(name, '\0', 2, true) or #name
  return string.sub(name, at + 1), string.sub(name, 2, at - 1)
end

-- The name in a place of ready.
local function name_at(member) return string.sub(member, spot_size(member, 1) + 1) end

-- An id as text.
local function spell(id)
  if (string.byte(id) or 32) >= 32 then return id end
  return string.format('%08x-%04x-%04x-%04x-%04x%08x', struct.unpack('>I4I2I2I2I2I4', id))
end

-- The end of a meta record: holder, the note as reason and detail, and the rest, as in history.lua.
local function pack_tail(holder, note) return struct.pack('>I2', #holder) .. holder .. note end

local function pack_note(reason, detail)
  return struct.pack('>I1', #reason) .. reason .. struct.pack('>I4', #detail) .. detail
end

-- Where the holder begins in a meta, and what is behind it.
local function held_by(meta)
  local at = META_SIZE + spot_size(meta, META_SIZE + 1) + 1
  return at + 2, at + 2 + struct.unpack('>I2', meta, at)
end

-- Counters plus counters, both packed.
local function add(counters, more)
  local a, b = {struct.unpack(COUNTERS, counters)}, {struct.unpack(COUNTERS, more)}
  for i = 1, 6 do a[i] = a[i] + b[i] end
  return struct.pack(COUNTERS, unpack(a, 1, 6))
end

local function pack_meta(m)
  return struct.pack(META_HEAD, m.token, m.priority) .. m.counters
    .. (m.extra > 0 and '\1' or '\0') .. spot(m.due, m.number) .. pack_tail(m.holder, m.note .. m.rest)
end

-- A message as a table, from its two records (the archived ones, if given); false if it is not live.
-- `born` is its incarnation.
local function fetch(id, blob, meta)
  blob = blob or call('HGET', MSG, id)
  if not is_msg(blob) then return false end
  local m = unpack_msg(blob)
  m.id, m.born, m.blob = id, m.number, blob
  m.token, m.counters, m.holder, m.note, m.rest = 0, ZERO, '', NO_NOTE, ''
  meta = meta or call('HGET', META, id)
  if is_meta(meta) then
    m.token, m.priority = struct.unpack(META_HEAD, meta)
    m.due, m.number = read_spot(meta, META_SIZE + 1)
    m.counters = string.sub(meta, COUNTERS_AT, COUNTERS_END)
    local first, at = held_by(meta)
    m.holder = string.sub(meta, first, at - 1)
    local reason = struct.unpack('>I1', meta, at)
    local last = at + 4 + reason + struct.unpack('>I4', meta, at + 1 + reason)
    m.note, m.rest = string.sub(meta, at, last), string.sub(meta, last + 1)
  end
  m.name = name_of(id, m.key)
  return m
end

-- Take a message out of wherever it stands.
local function displace(m)
  if call('ZREM', LEASED, m.id) == 0
    and call('ZREM', DELAYED, delayed_place(m.priority, m.number, m.name)) == 0
    and call('ZREM', READY, place(m.due, m.number, m.name)) == 0 and m.key ~= '' then
    call('ZREM', LISTS, parked_place(m))
  end
end

-- Put a message that is not held where its due time says.
local function stand(name, due, number, priority)
  if due <= NOW then
    call('ZADD', READY, -priority, place(due, number, name))
  else
    call('ZADD', DELAYED, due, delayed_place(priority, number, name))
  end
end

-- Put the first of those that are parked for a key back into the line, if there is any.
local function unpark(key)
  local first, last = within('p' .. key)
  local found = call('ZRANGEBYLEX', LISTS, first, last, 'LIMIT', 0, 1)[1]
  if not found then return 0 end
  local _, level, begins, id = read_parked(found)
  call('ZREM', LISTS, found)
  if id == '' then return unpark(key) end
  call('ZADD', READY, level - 128, begins .. name_of(id, key))
  return 1
end

-- A message leaves its key, or its place in it: the next one is looked at.
local function let_go(key, id)
  if key == '' then return 0 end
  call('ZREM', LISTS, 'h' .. key .. '\0' .. id)
  return unpark(key)
end

-- Write a message that waits from its due time on, and put it there.
local function enter(m)
  m.token = 0
  if m.changed then
    local number = m.number
    m.number = m.born
    call('HSET', MSG, m.id, pack_msg(m))
    m.number = number
  end
  call('HSET', META, m.id, pack_meta(m))
  stand(m.name, m.due, m.number, m.priority)
end

-- A fresh message, from a packed msg. A meta that outlived its message (deleted by hand) must go:
-- its token would let a former holder settle this one.
local created = 0
local function create(id, blob)
  local m = unpack_msg(blob)
  call('HDEL', META, id)
  call('HSET', MSG, id, blob)
  stand(name_of(id, m.key), m.due, m.number, m.priority)
  created = created + 1
end

-- What was reported to a message is of no use any more; or only if no message is left that can read it.
local function forget_reports(id) call('ZREMRANGEBYLEX', LISTS, within('r' .. id)) end
local function forget_unread(id)
  if call('HEXISTS', KEPT, id) == 1 then return end
  local m = fetch(id)
  if not m or m.awaits == 0 then forget_reports(id) end
end

-- A rule is four characters: payload, run_at, policy, reset (each 0 or 1, run_at one of a n l e).
local function moves(rule, old, new)
  local run_at = string.sub(rule, 2, 2)
  return run_at == 'a' or (run_at == 'l' and new > old) or (run_at == 'e' and new < old)
end

local function wants(rule, index) return string.sub(rule, index, index) == '1' end

-- Change a message that waits (and stands nowhere), field by field, and enter it.
local function merge(m, rule, blob)
  local new = unpack_msg(blob)
  m.changed = true
  if wants(rule, 1) then m.body = new.body end
  if wants(rule, 3) then
    m.headers, m.priority, m.key = new.headers, new.priority, new.key
    m.extra, m.name = #pack_extras(m.awaits, m.key, m.reports_to), name_of(m.id, m.key)
  end
  if wants(rule, 4) then m.counters = ZERO end
  if moves(rule, m.due, new.due) then m.due, m.number = new.due, new.number end
  enter(m)
end

-- Merge a further draft into a successor, which then remembers both their wishes.
local function join(old, rule, blob)
  local first, m, new = string.sub(old, 1, 4), unpack_msg(string.sub(old, 5)), unpack_msg(blob)
  if wants(rule, 1) then m.body = new.body end
  if wants(rule, 3) then m.headers, m.priority, m.key = new.headers, new.priority, new.key end
  local moved = moves(rule, m.due, new.due)
  if moved then m.due, m.number = new.due, new.number end
  local function either(index) return (wants(first, index) or wants(rule, index)) and '1' or '0' end
  local before, run_at = string.sub(first, 2, 2), string.sub(rule, 2, 2)
  if run_at == 'n' or run_at == before then
    run_at = before
  elseif before ~= 'n' then
    run_at = (moved or run_at == 'a' or before == 'a') and 'a' or before
  end
  return either(1) .. run_at .. either(3) .. either(4) .. pack_msg(m)
end

-- Take out the successor of an id: its rule and its msg, or false.
local function take_next(id)
  local successor = call('HGET', NEXT, id)
  if not successor then return false end
  call('HDEL', NEXT, id)
  if not is_msg(string.sub(successor, 5)) then return false end
  return string.sub(successor, 1, 4), string.sub(successor, 5)
end

-- A message that was leased waits again at that place; its successor is merged into it.
local function give_back(m, due, number)
  local key = m.key
  m.due, m.number = due, number
  local rule, blob = take_next(m.id)
  if rule then merge(m, rule, blob) else enter(m) end
  let_go(key, m.id)
end

-- The successor of a message that has ended becomes a fresh one, if there is any.
local function succeed(id)
  local rule, blob = take_next(id)
  if not rule then return 0 end
  if unpack_msg(blob).awaits > 0 then forget_reports(id) end
  create(id, blob)
  return 1
end

-- Add to a number in head, and say what it is then.
local function tally(field, more)
  local number = whole(call('HGET', HEAD, field)) + more
  call('HSET', HEAD, field, text(number))
  return number
end

-- At the end of a script that may have created messages.
local function count_created()
  if created > 0 then tally('created', created) end
end

-- Numbers, like tokens, follow the clock, so that they go on growing also after a drop.
local function next_numbers(count)
  local last = math.max(whole(call('HGET', HEAD, 'number')), NOW)
  call('HSET', HEAD, 'number', text(last + count))
  return last
end

-- A full draft is seven arguments: id, rule (K, R, or four characters), delay, priority, extras
-- (packed), headers, body.
local DRAFT = 7

local function pack_draft(first, number)
  return spot(NOW + ARGV[first + 2], number)
    .. pack_full(ARGV[first + 3], NOW, ARGV[first + 4], ARGV[first + 5]) .. ARGV[first + 6]
end

-- Whether the end of a message has been reported to another, which is live.
local function is_reported(to, id)
  return to ~= '' and call('HEXISTS', MSG, to) == 1
    and call('ZLEXCOUNT', LISTS, within('r' .. to .. '\0' .. spell(id))) > 0
end

-- Send one draft whose id may be live. Answers c(reated), k(ept), u(pdated) or b(locked).
local function send(first, number)
  local id, rule = ARGV[first], ARGV[first + 1]
  local m = fetch(id)
  local blob = pack_draft(first, number)
  if not m then
    if ARGV[first + 4] ~= '' then
      local new = unpack_msg(blob)
      if is_reported(new.reports_to, id) then return 'k' end
      if new.awaits > 0 then forget_reports(id) end
    end
    create(id, blob)
    return 'c'
  end
  if #rule == 1 then return 'k' end
  if m.token == 0 then
    local key = m.key
    displace(m)
    merge(m, rule, blob)
    let_go(key, id)
    return 'u'
  end
  local successor = call('HGET', NEXT, id)
  local joins = successor and is_msg(string.sub(successor, 5))
  call('HSET', NEXT, id, joins and join(successor, rule, blob) or rule .. blob)
  return 'b'
end

-- What was delayed and has fallen due, or was leased and has run out, stands in ready from now on.
-- No call moves more than `most` of either; the next ones move the rest. Says if there may be more.
local function promote(most)
  local due = call('ZRANGEBYSCORE', DELAYED, '-inf', NOW, 'WITHSCORES', 'LIMIT', 0, most)
  if #due > 0 then
    local entries = {}
    for i = 1, #due, 2 do
      local at = tonumber(due[i + 1])
      if #due[i] > 9 and at >= 0 then
        local level, number = struct.unpack('>I1I8', due[i])
        entries[#entries + 1] = level - 128
        entries[#entries + 1] = place(at, number, string.sub(due[i], 10))
      end
    end
    if #entries > 0 then call('ZADD', READY, unpack(entries)) end
    call('ZREMRANGEBYRANK', DELAYED, 0, #due / 2 - 1)
  end
  local over = call('ZRANGEBYSCORE', LEASED, '-inf', NOW, 'LIMIT', 0, most)
  if #over > 0 then
    local metas, entries = call('HMGET', META, unpack(over)), {}
    for i = 1, #over do
      local _, at, number, priority
      if is_meta(metas[i]) then
        _, priority = struct.unpack(META_HEAD, metas[i])
        at, number = read_spot(metas[i], META_SIZE + 1)
      end
      local name = over[i]
      if not at or string.byte(metas[i], META_SIZE) > 0 then -- has a key, perhaps; or its meta was
        local m = fetch(name)                                -- deleted by hand
        if m then at, number, priority, name = m.due, m.number, m.priority, m.name end
      end
      if at then
        entries[#entries + 1] = -priority
        entries[#entries + 1] = place(at, number, name)
      end
    end
    if #entries > 0 then call('ZADD', READY, unpack(entries)) end
    call('ZREMRANGEBYRANK', LEASED, 0, #over - 1)
  end
  return #due == 2 * most or #over == most
end

-- The rank behind the place where the last page ended ('' if there was none), also if what stood there
-- is gone: enter it, look, take it out again.
local function rank_after(key, score, member, newest_first)
  if score == '' then return 0 end
  local stranger = call('ZADD', key, 'NX', score, member) == 1
  local rank = call(newest_first and 'ZREVRANK' or 'ZRANK', key, member)
  if stranger then call('ZREM', key, member) end
  return stranger and rank or rank + 1
end

-- A message as an operator sees it: state, end of lease, meta, msg, archived_at.
local function describe(m)
  local held = call('ZSCORE', LEASED, m.id)
  local state = 'ready'
  if held and tonumber(held) > NOW then
    state = 'leased'
  elseif not held and m.due > NOW then
    state = 'delayed'
  end
  return {state, state == 'leased' and held or '', pack_meta(m), m.blob, ''}
end
