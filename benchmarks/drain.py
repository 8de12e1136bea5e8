"""How much does bee add to running a job?

Sends and drains no-op jobs through any broker, and in the same run a bare asyncio loop that
decodes the same envelopes and runs each in a task under `asyncio.timeout`, with no queue, no
lease, no settling: the least that running jobs with a timeout can cost. The ratio of the two is
what to look at; the absolute figures belong to the machine.

    python -m benchmarks.drain --url memory:// --jobs 100000 --concurrency 100
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import platform
import statistics
import time

import bee_core as bee


class Noop(bee.Job):
    """About 200 bytes on the wire."""

    number: int
    text: str = "x" * 150


async def handle(job: Noop) -> None:
    """Do nothing, asynchronously."""


async def bare(bodies: list[bytes], concurrency: int) -> float:
    """Decode each envelope and run it in a task under a timeout, `concurrency` at once."""
    codec = bee.JsonCodec(Noop)
    free = asyncio.Semaphore(concurrency)

    async def run(body: bytes) -> None:
        async with asyncio.timeout(60):
            await handle(codec.decode(body))
        free.release()

    start = time.process_time()
    tasks = set()
    for body in bodies:
        await free.acquire()
        task = asyncio.create_task(run(body))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.wait(tasks)
    return time.process_time() - start


async def send(url: str, jobs: int) -> tuple[bee.Store, float]:
    """Fill the queue; return the broker and the seconds of CPU it took."""
    broker = bee.connect(url)
    await broker.drop("bench")
    queue = bee.Queue(broker, "bench", Noop)
    start = time.process_time()
    await queue.send_many(Noop(number) for number in range(jobs))
    return broker, time.process_time() - start


async def drain(broker: bee.Store, concurrency: int) -> float:
    """Run everything that is waiting; return the seconds of CPU it took."""
    worker = bee.Worker(broker, "bench", Noop, handle, concurrency=concurrency, observers=())
    start = time.process_time()
    await worker.run(until_empty=True)
    return time.process_time() - start


async def measure(url: str, jobs: int, concurrency: int) -> tuple[float, float, float]:
    """One round: CPU seconds of sending, of draining, and of the bare loop."""
    codec = bee.JsonCodec(Noop)
    bodies = [codec.encode(Noop(number)) for number in range(jobs)]
    gc.collect()
    baseline = await bare(bodies, concurrency)
    gc.collect()
    broker, sending = await send(url, jobs)
    async with broker:
        gc.collect()
        return sending, await drain(broker, concurrency), baseline


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="memory://")
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--concurrency", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(f"{options.jobs} no-op jobs, concurrency {options.concurrency}, {options.url}")
    print(f"Python {platform.python_version()}, CPU time per job in µs, {options.rounds} rounds")
    rounds = [
        asyncio.run(measure(options.url, options.jobs, options.concurrency))
        for _ in range(options.rounds)
    ]
    each = [tuple(1e6 * s / options.jobs for s in one) for one in rounds]
    for sending, draining, baseline in each:
        ratio = draining / baseline
        print(f"send {sending:6.2f}   drain {draining:6.2f}   bare {baseline:6.2f}   {ratio:.2f}x")
    ratio = statistics.median(draining / baseline for _, draining, baseline in each)
    print(f"median: draining costs {ratio:.2f} times the bare loop")


if __name__ == "__main__":
    main()
