"""Which layout on Redis? The candidates of ADR 0011, each with as little around it as possible.

All three deliver at least once with a lease. The first two also have what a Broker must have: an
idempotent send, tokens, counters, a place for delays; the stream has none of it and is the floor.

    python -m benchmarks.redis_layouts [--backlog 500000]
"""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import Any

import redis.asyncio as redis

from tests.servers import RedisServer, valkey_binary

BATCH = 100
BODY = b"x" * 200
KEYS = [f"bench:{{q}}:{k}" for k in ("ready", "msg", "meta", "hidden", "delayed", "head", "next")]

LISTS = (
    # A list of ready ids, hashes of bodies and records, sorted sets of leases and of delays.
    """#!lua
local now=redis.call('TIME'); local t=now[1]*1000000+now[2]
local seq=redis.call('HINCRBY',KEYS[6],'seq',#ARGV/2)
local push,bodies,meta={},{},{}
for i=1,#ARGV,2 do
 local id=ARGV[i]
 if redis.call('HEXISTS',KEYS[2],id)==0 then
  push[#push+1]=id; bodies[#bodies+1]=id; bodies[#bodies+1]=ARGV[i+1]
  meta[#meta+1]=id; meta[#meta+1]=struct.pack('>ddI8I1I2I2I2I2I2',t,t,0,9,0,0,0,0,0)
 end
end
redis.call('HSET',KEYS[2],unpack(bodies)); redis.call('HSET',KEYS[3],unpack(meta)); redis.call('RPUSH',KEYS[1],unpack(push))
return #push
""",
    """#!lua flags=allow-oom
local now=redis.call('TIME'); local t=now[1]*1000000+now[2]
local due=redis.call('ZRANGEBYSCORE',KEYS[5],'-inf',t,'LIMIT',0,100)
local exp=redis.call('ZRANGEBYSCORE',KEYS[4],'-inf',t,'LIMIT',0,100)
local ids=redis.call('LPOP',KEYS[1],ARGV[1])
if not ids or #ids==0 then return {} end
local last=tonumber(redis.call('HGET',KEYS[6],'token') or '0'); if t>last then last=t end
local bodies=redis.call('HMGET',KEYS[2],unpack(ids)); local metas=redis.call('HMGET',KEYS[3],unpack(ids))
local out,z,m={},{},{}
for i=1,#ids do
 local a,b,tok,p,d,e,ti,s,r=struct.unpack('>ddI8I1I2I2I2I2I2',metas[i])
 last=last+1
 out[#out+1]=ids[i]; out[#out+1]=string.format('%.0f',last); out[#out+1]=bodies[i]
 z[#z+1]=t+30000000; z[#z+1]=ids[i]; m[#m+1]=ids[i]; m[#m+1]=struct.pack('>ddI8I1I2I2I2I2I2',a,b,last,p,d+1,e,ti,s,r)
end
redis.call('HSET',KEYS[6],'token',string.format('%.0f',last)); redis.call('ZADD',KEYS[4],unpack(z)); redis.call('HSET',KEYS[3],unpack(m))
return out
""",
    """#!lua flags=allow-oom
local ids={}; for i=1,#ARGV,2 do ids[#ids+1]=ARGV[i] end
local metas=redis.call('HMGET',KEYS[3],unpack(ids)); local nx=redis.call('HMGET',KEYS[7],unpack(ids))
local done,lost={},{}
for i=1,#ids do
 local m=metas[i]
 local ok=false
 if m then local a,b,tok=struct.unpack('>ddI8',m); ok=(string.format('%.0f',tok)==ARGV[i*2]) end
 if ok then done[#done+1]=ids[i] else lost[#lost+1]=ids[i] end
end
if #done>0 then redis.call('HDEL',KEYS[2],unpack(done)); redis.call('HDEL',KEYS[3],unpack(done)); redis.call('ZREM',KEYS[4],unpack(done)) end
return lost
""",
)
ZSETS = (
    # Ready ids in a sorted set whose members are their order; hidden ones in another, by time.
    """#!lua
local now=redis.call('TIME'); local t=now[1]*1000000+now[2]
local n=#ARGV/2
local seq=redis.call('HINCRBY',KEYS[6],'seq',n)-n
local msgs,z={},{}
for i=1,#ARGV,2 do
 local id=ARGV[i]
 if redis.call('HEXISTS',KEYS[2],id)==0 then
  seq=seq+1
  local place=struct.pack('>dI6',t,seq)
  msgs[#msgs+1]=id; msgs[#msgs+1]=struct.pack('>dI6b',t,seq,0)..ARGV[i+1]
  z[#z+1]=0; z[#z+1]=place..id
 end
end
redis.call('HSET',KEYS[2],unpack(msgs)); redis.call('ZADD',KEYS[1],unpack(z))
return #msgs/2
""",
    """#!lua flags=allow-oom
local now=redis.call('TIME'); local t=now[1]*1000000+now[2]
local due=redis.call('ZRANGEBYSCORE',KEYS[4],'-inf',t,'LIMIT',0,100)
local popped=redis.call('ZPOPMIN',KEYS[1],ARGV[1])
if #popped==0 then return {} end
local last=tonumber(redis.call('HGET',KEYS[6],'token') or '0'); if t>last then last=t end
local ids={}
for i=1,#popped,2 do ids[#ids+1]=string.sub(popped[i],15) end
local msgs=redis.call('HMGET',KEYS[2],unpack(ids)); local metas=redis.call('HMGET',KEYS[3],unpack(ids))
local out,z,m={},{},{}
for i=1,#ids do
 local place=string.sub(popped[i*2-1],1,14)
 last=last+1
 local d,e,ti,s,r=0,0,0,0,0
 if metas[i] then local _,_,d2=struct.unpack('>I8c14I2',metas[i]); d=d2 end
 out[#out+1]=ids[i]; out[#out+1]=string.format('%.0f',last); out[#out+1]=msgs[i]
 z[#z+1]=t+30000000; z[#z+1]=ids[i]; m[#m+1]=ids[i]; m[#m+1]=struct.pack('>I8c0I1I2I2I2I2I2',last,place,0,d+1,e,ti,s,r)
end
redis.call('HSET',KEYS[6],'token',string.format('%.0f',last)); redis.call('ZADD',KEYS[4],unpack(z)); redis.call('HSET',KEYS[3],unpack(m))
return out
""",
    """#!lua flags=allow-oom
local ids={}; for i=1,#ARGV,2 do ids[#ids+1]=ARGV[i] end
local metas=redis.call('HMGET',KEYS[3],unpack(ids)); local nx=redis.call('HMGET',KEYS[7],unpack(ids))
local done,lost={},{}
for i=1,#ids do
 local m=metas[i]
 local ok=false
 if m then local tok=struct.unpack('>I8',m); ok=(string.format('%.0f',tok)==ARGV[i*2]) end
 if ok then done[#done+1]=ids[i] else lost[#lost+1]=ids[i] end
end
if #done>0 then redis.call('HDEL',KEYS[2],unpack(done)); redis.call('HDEL',KEYS[3],unpack(done)); redis.call('ZREM',KEYS[4],unpack(done)) end
return lost
""",
)
STREAM = (
    """#!lua
for i = 1, #ARGV, 2 do redis.call('XADD', KEYS[1], '*', 'id', ARGV[i], 'body', ARGV[i + 1]) end
return #ARGV / 2
""",
    """#!lua flags=allow-oom
local got = redis.call('XREADGROUP', 'GROUP', 'g', 'c', 'COUNT', ARGV[1], 'STREAMS', KEYS[1], '>')
local out = {}
if not got then return out end
for _, entry in ipairs(got[1][2]) do
  out[#out + 1] = entry[1]
  out[#out + 1] = '0'
  out[#out + 1] = entry[2][4]
end
return out
""",
    """#!lua flags=allow-oom
local ids = {}
for i = 1, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
redis.call('XACK', KEYS[1], 'g', unpack(ids))
redis.call('XDEL', KEYS[1], unpack(ids))
return {}
""",
)
LAYOUTS = {"lists, hashes, zsets": LISTS, "ready zset, hidden zset": ZSETS, "stream": STREAM}


async def cpu(client: Any) -> float:
    info = await client.info("cpu")
    return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])


async def measure(client: Any, name: str, backlog: int, drained: int) -> None:
    """Fill, then drain some, and print what both cost the server."""
    await client.execute_command("FLUSHALL", "SYNC")
    if name == "stream":
        await client.xgroup_create(KEYS[0], "g", id="0", mkstream=True)
    send, lease, settle = [await client.script_load(text) for text in LAYOUTS[name]]
    empty = (await client.info("memory"))["used_memory"]
    used, start = await cpu(client), time.perf_counter()
    for first in range(0, backlog, BATCH):
        arguments: list[object] = []
        for number in range(first, first + BATCH):
            arguments += (f"01a1e2d8-cf7b-7e5b-8dc2-{number:012x}", BODY)
        await client.evalsha(send, len(KEYS), *KEYS, *arguments)
    sending, sent_cpu = time.perf_counter() - start, await cpu(client) - used
    held = ((await client.info("memory"))["used_memory"] - empty) / backlog
    done, used, start = 0, await cpu(client), time.perf_counter()
    while done < min(drained, backlog):
        reply = await client.evalsha(lease, len(KEYS), *KEYS, BATCH)
        pairs = [part for i in range(0, len(reply), 3) for part in reply[i : i + 2]]
        assert not await client.evalsha(settle, len(KEYS), *KEYS, *pairs)
        done += len(reply) // 3
    draining, drained_cpu = time.perf_counter() - start, await cpu(client) - used
    print(
        f"{name:<24} {backlog:>8,} | send {backlog / sending:7,.0f}/s"
        f" {1e6 * sent_cpu / backlog:5.1f} µs | drain {done / draining:7,.0f}/s"
        f" {1e6 * drained_cpu / done:5.1f} µs | {held:4.0f} bytes"
    )


async def run(path: str, large: int) -> None:
    client = redis.Redis(unix_socket_path=path)
    for name in LAYOUTS:
        for backlog in (1_000, large):
            await measure(client, name, backlog, 20_000)
    await client.aclose()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backlog", type=int, default=500_000)
    options = parser.parse_args()
    server = RedisServer(valkey_binary())
    try:
        print("batches of 100, bodies of 200 bytes; µs are CPU of the server per job")
        asyncio.run(run(str(server.socket), options.backlog))
    finally:
        server.stop()


if __name__ == "__main__":
    main()
