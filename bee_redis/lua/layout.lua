-- The keys of a queue, how records are packed, and the least that a script needs. It stands in front of
-- every script; it does nothing by itself.
--
-- KEYS  1 ready    zset  -priority -> due, number, name (in order of delivery, byte by byte)
--       2 delayed  zset  due -> 128 - priority, number, name (not due when last looked at)
--       3 leased   zset  end of lease -> id              (held, or not yet seen to have run out)
--       4 msg      hash  id -> due, number, priority, sent_at, extras, headers, body
--       5 meta     hash  id -> token, due, number, priority, counters, has extras, holder, note, and what
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
--                        p key NUL held (0) or not (1), 128 - priority, due, number, id (parked: passed
--                                                        over for its key; one that ran out comes first)
--                        r parent NUL id NUL note, result (what was reported to a message)
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
-- can be found again. The name in a place is the id, and behind a NUL the key if there is one. Extras are
-- key, awaits and reports_to; few have any.
--
-- A script that fails half-way leaves half its work behind: nothing may fail after the first write.
-- So what will be written to is looked at before (`guard`), and a record that is missing or too
-- short to be one of bee's counts as none.

local READY, DELAYED, LEASED, MSG, META, NEXT = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local ARCHIVE, KEPT, OLDER, HEAD, LISTS = KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11]
local RESULTS, WORKERS, BELL = KEYS[12], KEYS[13], KEYS[14]
local call = redis.call

local clock = call('TIME')
local NOW = clock[1] * 1000000 + clock[2]

local MSG_HEAD = '>dI8bdI4I2'     -- due, number, priority, sent_at, lengths of headers and extras
local MSG_SIZE = 31
local EXTRAS_AT = 30              -- their length, in msg
local EXTRAS_HEAD = '>I4I2'       -- awaits, length of key; then key and reports_to
local META_HEAD = '>I8dI8b'       -- token, due, number, priority
local META_SIZE = 50              -- with the counters, and whether there are extras
local META_LEAST = META_SIZE + 7  -- with no holder and no note
local COUNTERS = '>I4I4I4I4I4I4'  -- deliveries, errors, timeouts, stalls, releases, unknowns
local COUNTERS_AT = 26
local COUNTERS_END = 49
local LEASED_HEAD = '>ddI8'       -- of the reply to a lease: pause, time, the token before the first one's
local LEASE = '>I2I1I4'           -- each lease in it: lengths of id, counters and msg; then those
local WORKER = '>dd'              -- since, until; then about
local WORKER_SIZE = 16
local PLACED = 17                 -- so long are due, number, priority: msg begins with them, meta has them
                                  -- behind the token. A place begins with the first 16 of them
local ZERO = struct.pack(COUNTERS, 0, 0, 0, 0, 0, 0)
local NO_NOTE = struct.pack('>I1I4', 0, 0)
local BELLS = 8                   -- more wake-ups than this need not be kept

-- Numbers above 2^31 lose digits in tostring.
local function text(number) return string.format('%.0f', number) end

-- Fail, with WRONGTYPE, if somebody else's data is there. `size` is the command that says how much.
local function guard(size, ...)
  for i = 1, select('#', ...) do call(size, (select(i, ...))) end
end

local function place(due, number, name) return struct.pack('>dI8', due, number) .. name end
local function delayed_place(priority, number, name) return struct.pack('>I1I8', 128 - priority, number) .. name end

-- Wake up to `count` of those who wait. `wakes`: how many wake-ups there are already, if that is known.
local function ring(count, wakes)
  local missing = math.min(count, BELLS - (wakes or call('LLEN', BELL)))
  if missing > 0 then call('RPUSH', BELL, unpack({'1', '1', '1', '1', '1', '1', '1', '1'}, 1, missing)) end
end
