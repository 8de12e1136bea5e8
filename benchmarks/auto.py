"""How does `Auto` find its size, and is that a good one?

Three loads, each from a size of 1, with more to do than can be done: jobs that wait (50 ms), jobs
that compute in the event loop (5 ms), and jobs that compute in processes (20 ms). For each: the
time until the size stays within a quarter of its final mean, that mean, and the rate compared with
the best of some fixed sizes, measured in the same run, before and after. Draws what happened.

    python -m benchmarks.auto --url memory:// --seconds 40 --svg docs/production/auto.svg
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import cast

import msgspec

import bee_core as bee
from bee_core.events import AttemptSettled, ConcurrencyChanged, Event
from bee_core.meter import LoopMeter

FIXED = (1, 2, 4, 10, 100, 1000)
BACKLOG = 3000
STEP = 0.5


class Wait(bee.Job):
    seconds: float


class Compute(bee.Job):
    seconds: float


class Apart(bee.Job):
    seconds: float


def burn(seconds: float) -> None:
    """Use so much processor time, and return."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


async def wait(job: Wait) -> None:
    await asyncio.sleep(job.seconds)


async def compute(job: Compute) -> None:
    burn(job.seconds)


def apart(job: Apart) -> None:
    burn(job.seconds)


class Case(msgspec.Struct, frozen=True):
    """A load: what it is called, its job, who handles it, and which fixed sizes are tried."""

    name: str
    job: bee.Job
    handler: Callable[..., object]
    process: bool = False
    fixed: tuple[int, ...] = FIXED


CASES = (
    Case("waits 50 ms", Wait(0.05), wait),
    Case("computes 5 ms in the loop", Compute(0.005), compute),
    Case("computes 20 ms in a process", Apart(0.02), apart, True, (1, 2, 4, 10)),
)


class Point(msgspec.Struct, frozen=True):
    """How it was in one step of time."""

    at: float
    size: int
    rate: float
    cpu: float
    lag: float


class Watched:
    """The meter of its own, with a memory, and with the events beside it."""

    def __init__(self, start: int) -> None:
        self._meter = LoopMeter()
        self.run = self._meter.run
        self.size = start
        self.done = 0
        self.reading = bee.Reading(0.0, 0.0)

    def read(self) -> bee.Reading:
        self.reading = self._meter.read()
        return self.reading

    def counted(self, case: Case) -> Callable[..., object]:
        """Its handler. What ends in the loop counts there: settlements come in bursts."""
        if case.process:
            return case.handler

        async def handler(job: bee.Job) -> None:
            await cast(Awaitable[None], case.handler(job))
            self.done += 1

        return handler

    def hear(self, event: Event) -> None:
        match event:
            case AttemptSettled(queue="apart"):
                self.done += 1
            case ConcurrencyChanged(size=size):
                self.size = size
            case _:
                pass


async def work(
    url: str, case: Case, size: int | None, most: int, duration: float
) -> Sequence[Point]:
    """Work on a queue that never gets empty; `size` None is `Auto`."""
    watched = Watched(1 if size is None else size)
    concurrency = bee.Auto(max=most, meter=watched) if size is None else size
    async with bee.connect(url) as broker:
        name = "apart" if case.process else "auto"
        await broker.drop(name)
        hive = bee.Hive(broker=broker, observers=(watched.hear,))
        queue = hive.queue(name, type(case.job), concurrency=concurrency)
        queue.on(type(case.job), process=case.process)(watched.counted(case))
        feeding = asyncio.create_task(feed(queue, case.job, watched))
        points: list[Point] = []
        async with hive.working():
            start = last = time.monotonic()
            done = watched.done  # a loop that is held up comes here late
            while last - start < duration:
                await asyncio.sleep(STEP)
                now = time.monotonic()
                rate = (watched.done - done) / (now - last)
                last, done, reading = now, watched.done, watched.reading
                points.append(Point(now - start, watched.size, rate, reading.cpu, reading.lag))
            feeding.cancel()
            hive.stop(grace=0)
        await hive.aclose()
        await broker.drop(name)
    return points


async def feed(queue: bee.HiveQueue[bee.Job], job: bee.Job, watched: Watched) -> None:
    """Keep jobs waiting."""
    sent = 0
    while True:
        while sent - watched.done < BACKLOG:
            await queue.send_many([job] * 100)
            sent += 100
        await asyncio.sleep(0.02)


def converged(points: Sequence[Point]) -> tuple[float, float]:
    """When the size came within a quarter of its final mean to stay, and that mean."""
    mean = statistics.fmean(point.size for point in points[-len(points) // 3 :])
    since = 0.0
    for point in points:
        if abs(point.size - mean) > max(1.0, mean / 4):
            since = point.at
    return since, mean


def steady_rate(points: Sequence[Point]) -> float:
    """Over the last half of the time."""
    late = [
        (point.rate, point.at - before.at)
        for before, point in pairwise([Point(0.0, 0, 0.0, 0.0, 0.0), *points])
        if point.at > points[-1].at / 2
    ]
    return sum(rate * time for rate, time in late) / sum(time for _, time in late)


async def measure(url: str, case: Case, most: int, seconds: float, fixed: float) -> list[Point]:
    """Print one line for each size that is tried, and one for Auto; return its way."""
    print(f"\n{case.name}; load average {os.getloadavg()[0]:.1f}")
    rates = {}
    for size in case.fixed:
        rates[size] = steady_rate(await work(url, case, size, most, fixed))
        print(f"  fixed {size:5}  {rates[size]:8.0f} jobs/s", flush=True)
    points = list(await work(url, case, None, most, seconds))
    best = max(rates, key=rates.__getitem__)
    again = steady_rate(await work(url, case, best, most, fixed))
    since, mean = converged(points)
    rate = steady_rate(points)
    fair = statistics.fmean([rates[best], again])
    print(f"  fixed {best:5}  {again:8.0f} jobs/s, once more")
    print(
        f"  auto  {mean:5.0f}  {rate:8.0f} jobs/s: {rate / fair:.0%} of the best; "
        f"converged after {since:.1f} s; load average {os.getloadavg()[0]:.1f}"
    )
    return points


# The drawing: a column for each load, a row for each of its figures.

WIDE, HIGH, GAP, LEFT, TOP = 300, 90, 34, 56, 44
ROWS: tuple[tuple[str, Callable[[Point], float]], ...] = (
    ("size", lambda point: float(point.size)),
    ("jobs/s", lambda point: point.rate),
    ("cpu", lambda point: point.cpu),
    ("lag, ms", lambda point: 1000 * point.lag),
)


def draw(found: Sequence[tuple[Case, Sequence[Point]]], about: str) -> str:
    """The SVG."""
    width = LEFT + len(found) * (WIDE + GAP + 20)
    height = TOP + len(ROWS) * (HIGH + GAP) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="11" fill="#444">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text x="{LEFT}" y="{height - 8}">{about}</text>',
    ]
    for column, (case, points) in enumerate(found):
        left = LEFT + column * (WIDE + GAP + 20)
        parts.append(f'<text x="{left}" y="20" font-size="14">{case.name}</text>')
        for row, (name, figure) in enumerate(ROWS):
            parts += panel(left, TOP + row * (HIGH + GAP), name, points, figure)
    return "\n".join([*parts, "</svg>", ""])


def panel(
    left: int, top: int, name: str, points: Sequence[Point], figure: Callable[[Point], float]
) -> list[str]:
    """One curve, with its scale."""
    most = max(1e-9, max(figure(point) for point in points))
    end = points[-1].at
    places = " ".join(
        f"{left + WIDE * point.at / end:.1f},{top + HIGH - HIGH * figure(point) / most:.1f}"
        for point in points
    )
    return [
        f'<path d="M{left} {top}v{HIGH}h{WIDE}" fill="none" stroke="#bbb"/>',
        f'<text x="{left + 4}" y="{top - 4}">{name}</text>',
        f'<text x="{left - 4}" y="{top + 8}" text-anchor="end">{most:.3g}</text>',
        f'<text x="{left - 4}" y="{top + HIGH}" text-anchor="end">0</text>',
        f'<text x="{left + WIDE}" y="{top + HIGH + 13}" text-anchor="end">{end:.0f} s</text>',
        f'<polyline points="{places}" fill="none" stroke="#c80" stroke-width="1.5"/>',
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="memory://")
    parser.add_argument("--seconds", type=float, default=40.0, help="for each run of Auto")
    parser.add_argument("--fixed", type=float, default=8.0, help="for each run of a fixed size")
    parser.add_argument("--max", type=int, default=1000, help="the bound of Auto")
    parser.add_argument("--case", type=int, action="append", choices=range(len(CASES)))
    parser.add_argument("--svg", type=Path)
    options = parser.parse_args()
    about = f"{options.url}, Python {platform.python_version()}, {os.cpu_count()} processors"
    print(about)
    found = []
    for number in options.case or range(len(CASES)):
        case = CASES[number]
        run = measure(options.url, case, options.max, options.seconds, options.fixed)
        found.append((case, asyncio.run(run)))
    if options.svg is not None:
        options.svg.write_text(draw(found, about), encoding="utf-8")


if __name__ == "__main__":
    main()
