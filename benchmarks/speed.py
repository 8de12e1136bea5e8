"""What the speed benchmarks of the stores share: the jobs, the work, and how it is compared.

Each measures the same work by bee and by a raw loop over the same driver and the same scripts or
statements, in turns, with batches of 100, one task with a deadline per job, and no library around
it. Ratios are what to look at; rates belong to the machine.
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
from typing import Protocol

import msgspec

import bee_core as bee

BATCH = 100
QUEUE = "bench"


class Noop(bee.Job):
    """About 200 bytes on the wire."""

    number: int
    text: str = "x" * 150


class Envelope(msgspec.Struct):
    v: int
    job: Noop


encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(Envelope).decode


async def handle(job: Noop) -> None:
    """Do nothing, asynchronously."""


class Raw(Protocol):
    """The same verbs over the same driver, with nothing around them."""

    async def send(self, drafts: Sequence[bee.Draft]) -> None: ...

    async def lease(self) -> Sequence[bee.Lease]: ...

    async def settle(self, leases: Sequence[bee.Lease]) -> None: ...


class Subject(Protocol):
    """A store that is measured: two brokers on servers of their own, and a raw loop on the first."""

    @property
    def one(self) -> bee.Store: ...

    @property
    def two(self) -> bee.Store: ...

    @property
    def raw(self) -> Raw: ...

    async def server_time(self, broker: bee.Store) -> float:
        """Seconds of processor time that this broker's server has used."""
        ...


async def raw_send(raw: Raw, jobs: int) -> None:
    for start in range(0, jobs, BATCH):
        numbers = range(start, start + BATCH)
        await raw.send([bee.Draft(bee.new_id(), encode(Envelope(1, Noop(n)))) for n in numbers])


async def raw_drain(raw: Raw, jobs: int) -> None:
    async def run(body: bytes) -> None:
        async with asyncio.timeout(60):
            await handle(decode(body).job)

    left = jobs
    while left:
        leases = await raw.lease()
        await asyncio.gather(*[asyncio.create_task(run(lease.body)) for lease in leases])
        await raw.settle(leases)
        left -= len(leases)


async def bee_send(broker: bee.Store, jobs: int) -> None:
    queue = bee.Queue(broker, QUEUE, Noop)
    for start in range(0, jobs, BATCH):
        await queue.send_many([Noop(number) for number in range(start, start + BATCH)])


async def bee_drain(broker: bee.Store, jobs: int) -> None:
    worker = bee.Worker(broker, QUEUE, Noop, handle, concurrency=BATCH, observers=())
    await worker.run(max_jobs=jobs)


async def rate(jobs: int, work: Callable[[], Awaitable[None]]) -> float:
    """Jobs a second."""
    gc.collect()
    start = time.perf_counter()
    await work()
    return jobs / (time.perf_counter() - start)


async def compare(subject: Subject, jobs: int, rounds: int) -> None:
    """Sending and draining, raw and with bee, in turns."""
    raw, broker = subject.raw, subject.one
    results: dict[str, list[float]] = {"raw send": [], "raw drain": [], "send": [], "drain": []}
    for _ in range(rounds):
        await broker.drop(QUEUE)
        results["raw send"].append(await rate(jobs, lambda: raw_send(raw, jobs)))
        results["drain"].append(await rate(jobs, lambda: bee_drain(broker, jobs)))
        results["send"].append(await rate(jobs, lambda: bee_send(broker, jobs)))
        results["raw drain"].append(await rate(jobs, lambda: raw_drain(raw, jobs)))
    for verb in ("send", "drain"):
        ours, limit = statistics.median(results[verb]), statistics.median(results[f"raw {verb}"])
        print(f"{verb:<6} bee {ours:8,.0f}/s   raw {limit:8,.0f}/s   {ours / limit:4.0%}")


async def in_turns(what: str, subject: Subject, jobs: int, rounds: int) -> None:
    """Draining the same jobs with a lot of other messages around and with few, in turns."""
    crowded, bare = subject.one, subject.two
    rates: dict[bee.Store, list[float]] = {crowded: [], bare: []}
    costs: dict[bee.Store, list[float]] = {crowded: [], bare: []}
    for number in range(2 * rounds):
        for broker in (crowded, bare) if number % 2 else (bare, crowded):
            await bee_send(broker, jobs)
            before = await subject.server_time(broker)
            rates[broker].append(await rate(jobs, partial(bee_drain, broker, jobs)))
            costs[broker].append(1e6 * (await subject.server_time(broker) - before) / jobs)
    a, b = statistics.median(rates[crowded]), statistics.median(rates[bare])
    print(f"drain  {what}: {a:8,.0f}/s   without: {b:8,.0f}/s   {a / b:4.0%}")
    a, b = statistics.median(costs[crowded]), statistics.median(costs[bare])
    print(f"       server's processor time a job: {a:.1f} µs   without: {b:.1f} µs")


async def backlog(subject: Subject, options: argparse.Namespace) -> None:
    """Draining in front of a long and of a short queue."""
    await bee_send(subject.one, options.backlog)
    await bee_send(subject.two, 1_000)
    what = f"in front of {options.backlog:,} instead of 1,000"
    await in_turns(what, subject, options.jobs, options.rounds)


async def delayed(subject: Subject, options: argparse.Namespace) -> None:
    """Draining with many delayed messages and with none."""
    queue = bee.Queue(subject.one, QUEUE, Noop)
    later = (queue.draft(Noop(number), delay=86_400) for number in range(options.delayed))
    await queue.send_many(later)
    what = f"with {options.delayed:,} delayed"
    await in_turns(what, subject, options.jobs, options.rounds)


async def pick_up(broker: bee.Store, times: int) -> None:
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


async def measure(subject: Subject, options: argparse.Namespace) -> None:
    """All of it."""
    print(f"Python {platform.python_version()}, {options.jobs:,} no-op jobs, one worker process")
    await compare(subject, options.jobs, options.rounds)
    for crowd in (backlog, delayed):
        await subject.one.drop(QUEUE)
        await subject.two.drop(QUEUE)
        await crowd(subject, options)
    await subject.one.drop(QUEUE)
    await pick_up(subject.one, 200)


def arguments(doc: str | None) -> argparse.ArgumentParser:
    """The options that all of them take."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--backlog", type=int, default=500_000)
    parser.add_argument("--delayed", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    return parser
