-- How messages end: the archive, what it keeps, and how a message gets in and out; and who is told. It
-- is put behind lib.lua, in front of the scripts that have to do with it; it does nothing by itself.
local KEPT_LEAST = 12 + META_LEAST + MSG_LEAST -- archived_at, length of meta, meta, msg

-- The parts of an archived record: archived_at, meta, number (packed), msg.
local function read_kept(record)
  local archived_at, size = struct.unpack('>dI4', record)
  local _, number = read_spot(record, 13 + size)
  return archived_at, string.sub(record, 13, 12 + size), struct.pack('>I8', number), string.sub(record, 13 + size)
end

local function get_kept(field)
  local record = call('HGET', KEPT, field)
  if not record or #record < KEPT_LEAST then return false end
  local behind = 13 + struct.unpack('>I4', record, 9)
  return is_meta(string.sub(record, 13, behind - 1)) and is_msg(string.sub(record, behind)) and record
end

-- Where an older incarnation stands among those of its id; and the field of kept that its place names.
local function older_place(id, archived_at, number) return id .. '\0' .. struct.pack('>d', archived_at) .. number end
local function older_field(id, number) return id .. '\0' .. number end

-- The field of head that counts what was archived for the reason of a meta.
local function reason_of(meta)
  local _, at = held_by(meta)
  local size = struct.unpack('>I1', meta, at)
  return 'reason:' .. (size > 0 and string.sub(meta, at + 1, at + size) or 'ruled')
end

local function keep_older(id, number, archived_at, record)
  call('HSET', KEPT, older_field(id, number), record)
  call('ZADD', OLDER, 0, older_place(id, archived_at, number))
end

-- Keep an incarnation (its number packed) in the archive. It is the one archived last of its id, unless
-- another was later; of what is archived now (`is_last`) that is certain, whatever the clock says.
local function keep_record(id, number, archived_at, meta, msg, is_last)
  local record = struct.pack('>dI4', archived_at, #meta) .. meta .. msg
  local last = get_kept(id)
  if last then
    local last_at, _, last_number = read_kept(last)
    is_last = is_last or last_at < archived_at
      or last_at == archived_at and struct.unpack('>I8', last_number) < struct.unpack('>I8', number)
    if is_last then keep_older(id, last_number, last_at, last) end
  end
  if is_last or not last then
    call('HSET', KEPT, id, record)
  else
    keep_older(id, number, archived_at, record)
  end
  call('ZADD', ARCHIVE, text(archived_at), number .. id)
  tally(reason_of(meta), 1)
end

local function keep(m) keep_record(m.id, struct.pack('>I8', m.born), NOW, pack_meta(m), m.blob, true) end

-- Tell a message how another has ended. The last report that it awaits makes it due.
local function report(m, result)
  local to = m.reports_to ~= '' and fetch(m.reports_to)
  if not to or to.awaits == 0 or is_reported(to.id, m.id) then return 0 end
  local note = m.note == NO_NOTE and pack_note('ruled', '') or m.note
  call('ZADD', LISTS, 0, 'r' .. to.id .. '\0' .. spell(m.id) .. '\0' .. note .. result)
  if to.token ~= 0 or to.due <= NOW
    or call('ZLEXCOUNT', LISTS, within('r' .. to.id)) ~= to.awaits then return 0 end
  displace(to)
  to.due, to.number = NOW, next_numbers(1) + 1
  enter(to)
  return 1
end

-- End a live message that stands nowhere: archive it or not, let its successor follow and its key go,
-- and report it. Says how many may have become ready.
local function finish(m, archive, result)
  call('HDEL', MSG, m.id)
  call('HDEL', META, m.id)
  if archive then
    keep(m)
  elseif m.awaits > 0 then
    forget_unread(m.id)
  end
  return succeed(m.id) + let_go(m.key, m.id) + report(m, result)
end

-- Remember for a while how a message ended, and forget some of what is remembered for too long.
local function remember(m, result, duration)
  local note = m.note == NO_NOTE and pack_note('ruled', '') or m.note
  local over = call('ZRANGEBYLEX', LISTS, '[x', '(x' .. struct.pack('>d', NOW), 'LIMIT', 0, 100)
  for _, entry in ipairs(over) do
    local id = string.sub(entry, 10)
    local result_of_it = call('HGET', RESULTS, id)
    if result_of_it and (#result_of_it < 8 or struct.unpack('>d', result_of_it) <= NOW) then call('HDEL', RESULTS, id) end
    call('ZREM', LISTS, entry)
  end
  local until_then = struct.pack('>d', NOW + duration)
  call('HSET', RESULTS, m.id, until_then .. note .. result)
  call('ZADD', LISTS, 0, 'x' .. until_then .. m.id)
end

local function describe_kept(record)
  local archived_at, meta, _, msg = read_kept(record)
  return {'archived', '', meta, msg, text(archived_at)}
end

-- The archived record of one incarnation; and whether it is the one archived last.
local function kept_record(id, number)
  local last = get_kept(id)
  if last then
    local _, _, last_number = read_kept(last)
    if last_number == number then return last, true end
  end
  return get_kept(older_field(id, number)), false
end

-- The one archived last is gone: the one before it takes its place. Some may have been deleted by hand.
local function recall(id)
  local places = call('ZREVRANGEBYLEX', OLDER, '[' .. id .. '\0\255', '[' .. id .. '\0', 'LIMIT', 0, 100)
  for _, place_of_it in ipairs(places) do
    local field = older_field(id, string.sub(place_of_it, -8))
    local record = get_kept(field)
    call('ZREM', OLDER, place_of_it)
    call('HDEL', KEPT, field)
    if record then
      call('HSET', KEPT, id, record)
      return
    end
  end
end

-- Take an incarnation (its number packed) out of the archive; its msg, if it was there.
local function unkeep(id, number)
  local record, last = kept_record(id, number)
  call('ZREM', ARCHIVE, number .. id)
  if not record then return end
  local archived_at, meta, _, msg = read_kept(record)
  if last then
    call('HDEL', KEPT, id)
    recall(id)
  else
    call('HDEL', KEPT, older_field(id, number))
    call('ZREM', OLDER, older_place(id, archived_at, number))
  end
  local reason = reason_of(meta)
  if tally(reason, -1) <= 0 then call('HDEL', HEAD, reason) end
  return msg
end
