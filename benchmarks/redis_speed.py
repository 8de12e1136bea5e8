"""How fast is bee on Redis, and how far from the limit?

Starts a Valkey server of its own (or takes --url) and measures, in one run, the same work by bee
and by a raw loop: the same client, the same scripts, batches of 100, one task with a deadline per
job, and no library around it. Ratios are what to look at; rates belong to the machine.

    python -m benchmarks.redis_speed [--jobs 20000] [--backlog 500000] [--delayed 100000]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import platform
import statistics
import time
from collections.abc import Awaitable, Callable

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


async def backlog(broker: RedisBroker, jobs: int, large: int, rounds: int) -> None:
    """Draining in front of a short and of a long queue."""
    short, long = [], []
    await broker.drop(QUEUE)
    await bee_send(broker, large)
    for _ in range(rounds):
        await bee_send(broker, jobs)
        long.append(await rate(jobs, lambda: bee_drain(broker, jobs)))
    await broker.drop(QUEUE)
    await bee_send(broker, 1_000)
    for _ in range(rounds):
        await bee_send(broker, jobs)
        short.append(await rate(jobs, lambda: bee_drain(broker, jobs)))
    a, b = statistics.median(long), statistics.median(short)
    print(f"drain  backlog {large:,}: {a:8,.0f}/s   1,000: {b:8,.0f}/s   {a / b:4.0%}")


async def delayed(broker: RedisBroker, jobs: int, waiting: int, rounds: int) -> None:
    """Draining with and without many delayed messages."""
    without, with_them = [], []
    await broker.drop(QUEUE)
    for _ in range(rounds):
        await bee_send(broker, jobs)
        without.append(await rate(jobs, lambda: bee_drain(broker, jobs)))
    queue = bee.Queue(broker, QUEUE, Noop)
    for start in range(0, waiting, 500):
        await queue.send_many([queue.draft(Noop(n), delay=86_400) for n in range(500)])
        del start
    for _ in range(rounds):
        await bee_send(broker, jobs)
        with_them.append(await rate(jobs, lambda: bee_drain(broker, jobs)))
    a, b = statistics.median(with_them), statistics.median(without)
    print(f"drain  {waiting:,} delayed: {a:8,.0f}/s   none: {b:8,.0f}/s   {a / b:4.0%}")


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


async def run(url: str, options: argparse.Namespace) -> None:
    async with RedisBroker(url) as broker:
        await compare(broker, options.jobs, options.rounds)
        await backlog(broker, options.jobs, options.backlog, options.rounds)
        await delayed(broker, options.jobs, options.delayed, options.rounds)
        await pick_up(broker, 200)
        await broker.drop(QUEUE)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--url")
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--backlog", type=int, default=500_000)
    parser.add_argument("--delayed", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    server = None if options.url else RedisServer(valkey_binary())
    try:
        url = options.url or (server.url if server is not None else "")
        print(f"Python {platform.python_version()}, {options.jobs} no-op jobs, one worker process")
        asyncio.run(run(url, options))
    finally:
        if server is not None:
            server.stop()


if __name__ == "__main__":
    main()
