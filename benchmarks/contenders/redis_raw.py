# /// script
# dependencies = ["msgspec==0.20.0", "uvloop==0.22.1"]
# ///
"""The limit on Redis: a loop written by hand, with bee's guarantees and nothing else.

An id is sent once, a lease ends and is taken over, a token that grows is compared at the end, deliveries are
counted, and of what is due the highest priority is run first, then what was due first. Any number of queues, each
with keys of its own. A list for each priority holds what waits, one zset by time what is delayed and what is leased;
what is due by then is put into its list first. One script settles a batch and leases the next, another prolongs
leases, by one timer for all. Two such loops take turns, so that jobs run while the server works. Each job is a task;
a batch has one deadline. Commands and answers are one MessagePack string each, over a protocol on uvloop that does
nothing else: less work for the client than any client library.

It has less to do than any library: nothing is counted but deliveries, a failed job is repeated when its lease ends,
waiting jobs cannot be found or cancelled, nothing is archived, and a batch is settled when the last of its jobs has
ended, so that a slow one holds up the other 99.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import traceback
from collections import deque
from collections.abc import Awaitable, Callable
from hashlib import sha1
from typing import Any
from urllib.parse import urlsplit

import handlers
import msgspec
import uvloop
from meter import Meter, Stopwatch, options, payload

BATCH = 100
LOOPS = 2
LEASE = 30_000_000
DEADLINE = 7200

# Keys of a queue: due, by time; body; state, of what was leased; level, of what has a priority other than 0; token;
# wake; and ready, in front of a level from 0 (first) to 18.
USUAL = 9
KEYS = ("due", "body", "state", "level", "token", "wake", "ready")

# ARGV delay in µs, {id, body, level, ...}. An id that is there is left as it is.
SEND = """
local sent = cmsgpack.unpack(ARGV[2])
local ids = {}
for i = 1, #sent, 3 do ids[#ids + 1] = sent[i] end
local there = redis.call('HMGET', KEYS[2], unpack(ids))
local bodies, lines, levels = {}, {}, {}
for i = 1, #ids do
  if not there[i] then
    local id, level = ids[i], sent[3 * i]
    bodies[#bodies + 1] = id
    bodies[#bodies + 1] = sent[3 * i - 1]
    if level ~= 9 then
      levels[#levels + 1] = id
      levels[#levels + 1] = level
    end
    local line = lines[level]
    if line then line[#line + 1] = id else lines[level] = {id} end
  end
end
if #bodies == 0 then return 0 end
redis.call('HSET', KEYS[2], unpack(bodies))
if #levels > 0 then redis.call('HSET', KEYS[4], unpack(levels)) end
if ARGV[1] == '0' then
  for level, line in pairs(lines) do redis.call('RPUSH', KEYS[7] .. level, unpack(line)) end
else
  local time, entries = redis.call('TIME'), {}
  local due = string.format('%.0f', time[1] * 1000000 + time[2] + ARGV[1])
  for i = 1, #bodies, 2 do entries[i], entries[i + 1] = due, bodies[i] end
  redis.call('ZADD', KEYS[1], unpack(entries))
end
if redis.call('LLEN', KEYS[6]) == 0 then redis.call('LPUSH', KEYS[6], '') end
return #bodies / 2
"""

# ARGV limit, lease in µs, {ids, states}: settle these whose state is still this one, and lease others. A state is a
# token, which grows, and the number of deliveries in its last three digits. Returns {ids, states, bodies}.
TURN = """
if ARGV[3] ~= '' then
  local settled = cmsgpack.unpack(ARGV[3])
  local ids, states = settled[1], settled[2]
  local found, mine = redis.call('HMGET', KEYS[3], unpack(ids)), {}
  for i = 1, #ids do if found[i] == states[i] then mine[#mine + 1] = ids[i] end end
  if #mine > 0 then
    if redis.call('ZREM', KEYS[1], unpack(mine)) < #mine then -- the lease of some has ended: they stand in line again
      for _, id in ipairs(mine) do
        redis.call('LREM', KEYS[7] .. (redis.call('HGET', KEYS[4], id) or 9), 0, id)
      end
    end
    redis.call('HDEL', KEYS[2], unpack(mine))
    redis.call('HDEL', KEYS[3], unpack(mine))
    redis.call('HDEL', KEYS[4], unpack(mine))
  end
end
local time = redis.call('TIME')
local now, limit = time[1] * 1000000 + time[2], tonumber(ARGV[1])
local due = redis.call('ZRANGE', KEYS[1], '-inf', now, 'BYSCORE', 'LIMIT', 0, 1000)
if #due > 0 then
  local levels, leased = redis.call('HMGET', KEYS[4], unpack(due)), redis.call('HMGET', KEYS[3], unpack(due))
  for i = #due, 1, -1 do if leased[i] then redis.call('LPUSH', KEYS[7] .. (levels[i] or 9), due[i]) end end
  for i = 1, #due do if not leased[i] then redis.call('RPUSH', KEYS[7] .. (levels[i] or 9), due[i]) end end
  redis.call('ZREM', KEYS[1], unpack(due))
end
local ids
for level = 0, 18 do
  local some = redis.call('LPOP', KEYS[7] .. level, limit - (ids and #ids or 0))
  if some and ids then
    for i = 1, #some do ids[#ids + 1] = some[i] end
  elseif some then
    ids = some
  end
  if ids and #ids == limit then break end
end
if not ids then return '' end
local token, ends = redis.call('INCR', KEYS[5]), string.format('%.0f', now + ARGV[2])
local bodies, states = redis.call('HMGET', KEYS[2], unpack(ids)), redis.call('HMGET', KEYS[3], unpack(ids))
local first = token .. '001'
local leases, changes = {}, {}
for i = 1, #ids do
  leases[2 * i - 1], leases[2 * i] = ends, ids[i]
  states[i] = states[i] and token .. string.format('%03d', string.sub(states[i], -3) + 1) or first
  changes[2 * i - 1], changes[2 * i] = ids[i], states[i]
end
redis.call('ZADD', KEYS[1], unpack(leases))
redis.call('HSET', KEYS[3], unpack(changes))
return cmsgpack.pack({ids, states, bodies})
"""

# ARGV lease in µs, and the third argument of the one above. Leases that are still held are prolonged.
RENEW = """
local time, held = redis.call('TIME'), cmsgpack.unpack(ARGV[2])
local found = redis.call('HMGET', KEYS[3], unpack(held[1]))
for i, id in ipairs(held[1]) do
  if found[i] == held[2][i] then
    redis.call('ZADD', KEYS[1], 'XX', time[1] * 1000000 + time[2] + ARGV[1], id)
  end
end
return ''
"""

pack = msgspec.msgpack.Encoder().encode
unpack = msgspec.msgpack.Decoder(tuple[list[str], list[str], list[str]]).decode
encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(dict[str, Any]).decode
Handler = Callable[[dict[str, Any]], Awaitable[None]]


def keys(queue: str) -> tuple[str, ...]:
    """How many, and which."""
    return (str(len(KEYS)), *(f"raw:{{{queue}}}:{key}" for key in KEYS))


NAMES = keys("bench")


class Link(asyncio.Protocol):
    """One connection. Answers are strings, numbers, or nothing; they come in the order of the calls."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[bytes]] = deque()
        self._read = b""

    def connection_made(self, transport: Any) -> None:
        self._write = transport.write

    def data_received(self, data: bytes) -> None:
        data = self._read = self._read + data if self._read else data
        at = 0
        while (end := data.find(b"\r\n", at)) > 0:
            start, line = end + 2, data[at:end]
            answer = line
            if line[:1] == b"$" and line != b"$-1":
                size = int(line[1:])
                if len(data) < start + size + 2:
                    break
                answer, start = data[start : start + size], start + size + 2
            elif line[:1] == b"*" and line != b"*-1":  # the one of BLPOP: its parts are not needed
                if data.count(b"\r\n", start) < 2 * int(line[1:]):
                    break
                start = len(data)
            self._waiting.popleft().set_result(answer)
            at = start
        self._read = data[at:]

    async def call(self, *parts: str | bytes) -> bytes:
        written = [b"*%d" % len(parts)]
        for part in parts:
            part = part.encode() if isinstance(part, str) else part
            written += (b"$%d" % len(part), part)
        self._write(b"\r\n".join(written) + b"\r\n")
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        found = await answer
        if found[:1] == b"-":
            raise RuntimeError(found)
        return found

    async def load(self, script: str) -> str:
        await self.call("SCRIPT", "LOAD", script)
        return sha1(script.encode()).hexdigest()


async def connect(url: str) -> Link:
    where = urlsplit(url)
    loop = asyncio.get_running_loop()
    _, link = await loop.create_connection(Link, where.hostname, where.port)
    return link


async def send(given: argparse.Namespace, batch: int, pause: float, warm_up: int) -> None:
    link = await connect(given.url)
    script = await link.load(SEND)
    prefix, delay = os.urandom(8).hex(), str(int(1e6 * given.delay))

    async def send_some(start: int, size: int) -> None:
        sent: list[object] = []
        for number in range(start, start + size):
            sent += (f"{prefix}{number:x}", encode(payload(number)).decode(), USUAL)
        await link.call("EVALSHA", script, *NAMES, delay, pack(sent))

    for number in range(warm_up):
        await send_some(-1 - number, 1)
    watch = Stopwatch()
    for start in range(0, given.jobs, batch):
        if pause:
            await asyncio.sleep(pause)
        await send_some(start, min(batch, given.jobs - start))
    watch.stop(given.jobs, f"a script for every {batch}")


async def work(given: argparse.Namespace, handle: Handler) -> None:
    at_once = given.concurrency or LOOPS * BATCH
    limit = min(BATCH, at_once)
    held: dict[int, bytes] = {}
    loops = [one_loop(given.url, limit, handle, held, n) for n in range(at_once // limit)]
    await asyncio.gather(renew(given.url, held), *loops)


async def renew(url: str, held: dict[int, bytes]) -> None:
    link = await connect(url)
    script = await link.load(RENEW)
    while True:
        await asyncio.sleep(LEASE / 3e6)
        for leases in list(held.values()):
            await link.call("EVALSHA", script, *NAMES, str(LEASE), leases)


async def one_loop(
    url: str,
    limit: int,
    handle: Handler,
    held: dict[int, bytes],
    number: int,
) -> None:
    link, loop = await connect(url), asyncio.get_running_loop()
    script = await link.load(TURN)

    async def run(at: int, body: str) -> None:
        try:
            await handle(decode(body))
        except Exception:  # its lease ends by itself, and it runs again
            traceback.print_exc()
            failed.append(at)

    done = b""
    while True:
        answer = await link.call("EVALSHA", script, *NAMES, str(limit), str(LEASE), done)
        if not answer:
            done = b""
            await link.call("BLPOP", NAMES[6], "1")
            continue
        ids, states, bodies = unpack(answer)
        failed: list[int] = []
        held[number] = done = pack((ids, states))
        async with asyncio.timeout(DEADLINE):
            for task in [loop.create_task(run(at, body)) for at, body in enumerate(bodies)]:
                await task
        del held[number]
        if failed:
            kept = [at for at in range(len(ids)) if at not in failed]
            done = pack(([ids[at] for at in kept], [states[at] for at in kept])) if kept else b""


def main() -> None:
    given = options()
    match given.command:
        case "send":
            uvloop.run(send(given, 1, given.pause, 20))
        case "send-many":
            uvloop.run(send(given, given.batch or 500, 0, 0))
        case "work":
            meter = Meter()
            meter.up()
            uvloop.run(work(given, handlers.coroutine(meter, given.handler)))


if __name__ == "__main__":
    main()
