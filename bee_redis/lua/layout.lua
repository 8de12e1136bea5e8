-- The keys of a queue, how records are packed, and the least that a script needs. It stands in front of
-- every script but send_one.lua and rights.lua; it does nothing by itself.
--
-- KEYS  1 ready    zset  -priority -> spot, name       (in order of delivery, byte by byte)
--       2 delayed  zset  due -> 128 - priority, number, name (not due when last looked at)
--       3 leased   zset  end of lease -> id              (held, or not yet seen to have run out)
--       4 msg      hash  id -> spot, whether it is full, and if so priority, sent_at, extras, headers; body
--       5 meta     hash  id -> token, priority, counters, has extras, spot, holder, note, and what
--                        else there is to tell (see history.lua; mostly nothing). Only once it has been
--                        leased or restored; then it outranks what msg says
--       6 next     hash  id -> rule, msg                 (the blocked successor)
--       7 archive  zset  archived_at -> number, id
--       8 kept     hash  id -> archived_at, meta, msg    (the one archived last; older ones of the
--                        same id under id NUL number)
--       9 older    zset  0 -> id NUL archived_at, number (the older ones, in order)
--      10 head     hash  token, number, created, paused, listed, cursor, reason:... (how many are archived)
--      11 lists    zset  0 -> a letter and what it lists, each list in order, byte by byte:
--                        d key NUL time, token           (a delivery of a key with a rate; no key: of the queue)
--                        e time, key                     (when to forget deliveries of a key)
--                        h key NUL id                    (who holds a key)
--                        p key NUL held (0) or not (1), 128 - priority, spot, id (parked: passed over for
--                                                        its key; one that ran out comes first)
--                        r parent NUL id NUL note, result (what was reported to a message; the id as text)
--                        w time, key                     (when to look at a key again)
--                        x time, id                      (when to forget a result)
--      12 results  hash  id -> until, note, result
--      13 workers  hash  name -> since, until, about     (who has announced itself; expires with the last)
--      14 bell     list  a wake-up each
--
-- Times are microseconds of the server's clock. Tokens follow it, so a token tells when its lease began:
-- it is that time and the number of the lease in its call, so no more than 1 ms later (of a queue that is
-- spread over n parts: n ms). Only if the clock
-- has gone back, tokens go on from where they were; then the time is written down as well (history.lua).
--
-- A live message has a field in msg and stands in exactly one of ready, delayed, leased, or is parked;
-- one whose lease ran out keeps its token while it stands in ready, until somebody takes it over. Where
-- it stands follows from its records, so a place that does not is stale, and one that was deleted by hand
-- can be found again. The name in a place is the id; if there is a key, that stands in front of it, between
-- two NULs. Extras are key, awaits and reports_to; few have any.
--
-- Ids are as ids.py packs them: text, or 16 bytes of which the first is a control character and not NUL. No
-- text begins with one, so neither can be the beginning of the other.
--
-- A spot is due and number, short and in order: 8 bytes of due, then the number as the time from due to it,
-- which is a short one for most; its first byte is neither 0 nor 255. If it is too long a time, 0 (it is
-- before due) or 255, and the number in 8 bytes.
--
-- A script that fails half-way leaves half its work behind: nothing may fail after the first write.
-- So what will be written to is looked at before (`guard`), and what somebody else has written into a record,
-- a place, a list or head counts as none if it cannot be bee's: it is shorter than it says, or no number.

local READY, DELAYED, LEASED, MSG, META, NEXT = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local ARCHIVE, KEPT, OLDER, HEAD, LISTS = KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11]
local RESULTS, WORKERS, BELL = KEYS[12], KEYS[13], KEYS[14]
local call = redis.call

local clock = call('TIME')
local NOW = clock[1] * 1000000 + clock[2]

local FULL_HEAD = '>bdI4I2'       -- of a full msg: priority, sent_at, lengths of headers and extras
local FULL_SIZE = 15
local MSG_LEAST = 13              -- a short spot, and that it is not full: no priority, extras, headers, sent when due
local EXTRAS_HEAD = '>I4I2'       -- awaits, length of key; then key and reports_to
local META_HEAD = '>I8b'          -- token, priority
local META_SIZE = 34              -- with the counters, and whether there are extras
local META_LEAST = META_SIZE + 19 -- with a short spot, no holder and no note
local COUNTERS = '>I4I4I4I4I4I4'  -- deliveries, errors, timeouts, stalls, releases, unknowns
local COUNTERS_AT = 10
local COUNTERS_END = 33
local LEASED_HEAD = '>ddI8'       -- of the reply to a lease: pause, time, the token before the first one's
local LEASE = '>I2I1I4'           -- each lease in it: lengths of id, counters and msg; then those
local WORKER = '>dd'              -- since, until; then about
local WORKER_SIZE = 16
local ZERO = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
local NO_NOTE = '\0\0\0\0\0'         -- no reason, no detail
local BELLS = 8                   -- more wake-ups than this need not be kept

-- Numbers above 2^31 lose digits in tostring.
local function text(number) return string.format('%.0f', number) end

-- Fail, with WRONGTYPE, if somebody else's data is there. `size` is the command that says how much.
local function guard(size, ...)
  for i = 1, select('#', ...) do call(size, (select(i, ...))) end
end

local function spot(due, number)
  local apart = number - due + 0x80000000
  if apart >= 0x1000000 and apart < 0xFF000000 then return struct.pack('>I8I4', due, apart) end
  return struct.pack('>I8I1I8', due, apart < 0x1000000 and 0 or 255, number)
end

-- How long the spot is that begins there; and what it says: due and number.
local function spot_size(record, at)
  local first = string.byte(record, at + 8)
  return (first == 0 or first == 255) and 17 or 12
end
local function read_spot(record, at)
  local due = struct.unpack('>I8', record, at)
  if spot_size(record, at) == 17 then return due, (struct.unpack('>I8', record, at + 9)) end
  return due, struct.unpack('>I4', record, at + 8) - 0x80000000 + due
end

-- Whether a msg is one of bee's, as far as its lengths tell.
local function is_msg(blob)
  if not blob or #blob < MSG_LEAST then return false end
  local at = spot_size(blob, 1) + 1
  local full = string.byte(blob, at)
  if full ~= 1 or #blob < at + FULL_SIZE then return full == 0 end
  local _, _, size, extra = struct.unpack(FULL_HEAD, blob, at + 1)
  at = at + FULL_SIZE
  if #blob < at + extra + size then return false end
  if extra == 0 then return true end
  return extra >= 6 and 6 + struct.unpack('>I2', blob, at + 5) <= extra
end

-- Whether a meta is one of bee's, as far as its lengths tell: those of holder, reason and detail.
local function is_meta(meta)
  if not meta or #meta < META_LEAST then return false end
  local at = META_SIZE + spot_size(meta, META_SIZE + 1) + 1
  if #meta < at + 6 then return false end
  at = at + 2 + struct.unpack('>I2', meta, at)
  if #meta < at + 4 then return false end
  at = at + 1 + string.byte(meta, at)
  return #meta >= at + 3 and #meta >= at + 3 + struct.unpack('>I4', meta, at)
end

-- A number that stands in head.
local function whole(value)
  local number = tonumber(value or '0') or 0
  return number > -2^53 and number < 2^53 and number or 0
end

local function pack_full(priority, sent_at, extras, headers)
  return '\1' .. struct.pack(FULL_HEAD, priority, sent_at, #headers, #extras) .. extras .. headers
end

local function place(due, number, name) return spot(due, number) .. name end
local function delayed_place(priority, number, name) return struct.pack('>I1I8', 128 - priority, number) .. name end

-- Wake up to `count` of those who wait. `wakes`: how many wake-ups there are already, if that is known.
local function ring(count, wakes)
  local missing = math.min(count, BELLS - (wakes or call('LLEN', BELL)))
  if missing > 0 then call('RPUSH', BELL, unpack({'1', '1', '1', '1', '1', '1', '1', '1'}, 1, missing)) end
end
