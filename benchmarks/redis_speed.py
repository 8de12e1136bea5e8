"""How fast is bee on Redis, and how far from the limit?

Starts Valkey servers of its own and measures, in one run, the same work by bee
and by a raw loop: the same client, the same scripts, batches of 100, one task with a deadline per
job, and no library around it. Ratios are what to look at; rates belong to the machine. The allocator matters: the Valkey of the
wheel is built on libc's malloc, which pays for a large heap; name another server with --server.

    python -m benchmarks.redis_speed [--server redis-server] [--backlog 500000] [--delayed 100000]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import platform
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import msgspec

import bee_core as bee
from bee_redis import RedisBroker
from bee_redis.connection import run_script
from bee_redis.keys import keys
from bee_redis.records import lease
from bee_redis.scripts import SCRIPTS
from tests.servers import RedisServer, valkey_binary

BATCH = 100
QUEUE = "bench"


class Noop(bee.Job):
    """About 200 bytes on the wire."""

    number: int
    text: str = "x" * 150


class Envelope(msgspec.Struct):
    v: int
    job: Noop


async def handle(job: Noop) -> None:
    """Do nothing, asynchronously."""


class Raw:
    """The same scripts over the same client, with nothing around them."""

    def __init__(self, broker: RedisBroker) -> None:
        self._broker = broker
        self._keys = keys("bee", QUEUE)
        self._encode = msgspec.json.Encoder().encode
        self._decode = msgspec.json.Decoder(Envelope).decode

    async def _run(self, verb: str, *arguments: object) -> object:
        link = await self._broker._open()
        return await run_script(link, SCRIPTS[verb], self._keys, *arguments, deadline=5.0)

    async def send(self, jobs: int) -> None:
        for start in range(0, jobs, BATCH):
            arguments: list[object] = []
            for number in range(start, start + BATCH):
                body = self._encode(Envelope(1, Noop(number)))
                arguments += (bee.new_id(), "K", 0, 0, b"", body)
            await self._run("send", *arguments)

    async def drain(self, jobs: int) -> None:
        async def run(body: bytes) -> None:
            async with asyncio.timeout(60):
                await handle(self._decode(body).job)

        left = jobs
        while left:
            reply = await self._run("lease", BATCH, 30_000_000, "raw")
            assert isinstance(reply, list)
            leases = [lease(*reply[i : i + 3]) for i in range(1, len(reply), 3)]
            await asyncio.gather(*[asyncio.create_task(run(one.body)) for one in leases])
            arguments: list[object] = [len(leases)]
            for one in leases:
                arguments += (one.receipt.id, one.receipt.token)
            await self._run("settle", *arguments)
            left -= len(leases)


async def bee_send(broker: RedisBroker, jobs: int) -> None:
    queue = bee.Queue(broker, QUEUE, Noop)
    for start in range(0, jobs, BATCH):
        await queue.send_many([Noop(number) for number in range(start, start + BATCH)])


async def bee_drain(broker: RedisBroker, jobs: int) -> None:
    worker = bee.Worker(broker, QUEUE, Noop, handle, concurrency=BATCH, observers=())
    await worker.run(max_jobs=jobs)


async def rate(jobs: int, work: Callable[[], Awaitable[None]]) -> float:
    """Jobs a second."""
    gc.collect()
    start = time.perf_counter()
    await work()
    return jobs / (time.perf_counter() - start)


async def compare(broker: RedisBroker, jobs: int, rounds: int) -> None:
    """Sending and draining, raw and with bee, in turns."""
    raw = Raw(broker)
    results: dict[str, list[float]] = {"raw send": [], "raw drain": [], "send": [], "drain": []}
    for _ in range(rounds):
        await broker.drop(QUEUE)
        results["raw send"].append(await rate(jobs, lambda: raw.send(jobs)))
        results["drain"].append(await rate(jobs, lambda: bee_drain(broker, jobs)))
        results["send"].append(await rate(jobs, lambda: bee_send(broker, jobs)))
        results["raw drain"].append(await rate(jobs, lambda: raw.drain(jobs)))
    for verb in ("send", "drain"):
        ours, limit = statistics.median(results[verb]), statistics.median(results[f"raw {verb}"])
        print(f"{verb:<6} bee {ours:8,.0f}/s   raw {limit:8,.0f}/s   {ours / limit:4.0%}")


async def server_info(broker: RedisBroker) -> dict[str, str]:
    """What the server says of itself."""
    link = await broker._open()
    [info] = await link.everywhere("INFO", "everything", deadline=5.0)
    return dict(line.split(":", 1) for line in info.decode().splitlines() if ":" in line)


async def server_time(broker: RedisBroker) -> float:
    """Seconds of processor time that the server has used."""
    info = await server_info(broker)
    return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])


async def in_turns(
    what: str, crowded: RedisBroker, bare: RedisBroker, jobs: int, rounds: int
) -> None:
    """Draining the same jobs with a lot of other messages around and with few, in turns."""
    rates: dict[RedisBroker, list[float]] = {crowded: [], bare: []}
    costs: dict[RedisBroker, list[float]] = {crowded: [], bare: []}
    for number in range(2 * rounds):
        for broker in (crowded, bare) if number % 2 else (bare, crowded):
            await bee_send(broker, jobs)
            before = await server_time(broker)
            rates[broker].append(await rate(jobs, partial(bee_drain, broker, jobs)))
            costs[broker].append(1e6 * (await server_time(broker) - before) / jobs)
    a, b = statistics.median(rates[crowded]), statistics.median(rates[bare])
    print(f"drain  {what}: {a:8,.0f}/s   without: {b:8,.0f}/s   {a / b:4.0%}")
    a, b = statistics.median(costs[crowded]), statistics.median(costs[bare])
    print(f"       server's processor time a job: {a:.1f} µs   without: {b:.1f} µs")


async def backlog(one: RedisBroker, two: RedisBroker, options: argparse.Namespace) -> None:
    """Draining in front of a long and of a short queue."""
    await bee_send(one, options.backlog)
    await bee_send(two, 1_000)
    what = f"in front of {options.backlog:,} instead of 1,000"
    await in_turns(what, one, two, options.jobs, options.rounds)


async def delayed(one: RedisBroker, two: RedisBroker, options: argparse.Namespace) -> None:
    """Draining with many delayed messages and with none."""
    queue = bee.Queue(one, QUEUE, Noop)
    later = (queue.draft(Noop(number), delay=86_400) for number in range(options.delayed))
    await queue.send_many(later)
    what = f"with {options.delayed:,} delayed"
    await in_turns(what, one, two, options.jobs, options.rounds)


async def pick_up(broker: RedisBroker, times: int) -> None:
    """From the call of send to the call of the handler, on an idle worker."""
    await broker.drop(QUEUE)
    arrived: asyncio.Queue[float] = asyncio.Queue()

    async def note(job: Noop) -> None:
        arrived.put_nowait(time.perf_counter())

    queue = bee.Queue(broker, QUEUE, Noop)
    worker = bee.Worker(broker, QUEUE, Noop, note, observers=())
    took = []
    async with worker.working():
        for number in range(times):
            await asyncio.sleep(0.02)
            start = time.perf_counter()
            await queue.send(Noop(number))
            took.append(1000 * (await arrived.get() - start))
    took.sort()
    print(
        f"pick-up of an idle worker: p50 {took[times // 2]:.2f} ms, p99 {took[-times // 100]:.2f}"
    )


async def run(urls: Sequence[str], options: argparse.Namespace) -> None:
    one, two = (RedisBroker(url) for url in urls)
    async with one, two:
        info = await server_info(one)
        version = info.get("valkey_version") or info["redis_version"]
        print(f"server {version} with {info['mem_allocator']}, Python {platform.python_version()},")
        print(f"{options.jobs:,} no-op jobs, one worker process")
        await compare(one, options.jobs, options.rounds)
        for measure in (backlog, delayed):
            await one.drop(QUEUE)
            await two.drop(QUEUE)
            await measure(one, two, options)
        await pick_up(one, 200)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--server", default=valkey_binary(), help="a redis-server or valkey-server")
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--backlog", type=int, default=500_000)
    parser.add_argument("--delayed", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    # Two servers, so that the same work can be measured with and without something, in turns.
    servers = [RedisServer(options.server), RedisServer(options.server)]
    try:
        asyncio.run(run([server.url for server in servers], options))
    finally:
        for server in servers:
            server.stop()


if __name__ == "__main__":
    main()
