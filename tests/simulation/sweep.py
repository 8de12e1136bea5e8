"""A process is killed before and after every call it makes of the store; another one finishes.

    python -m tests.simulation.sweep --store memory
    python -m tests.simulation.sweep --store valkey
    python -m tests.simulation.sweep --store pg

On the servers the process is a real one, and the kill is SIGKILL.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import bee_core as bee
from bee_core.broker import Store
from bee_core.testing.simulation import Simulation
from bee_memory import MemoryBroker
from tests.chaos import stores
from tests.chaos.workers import fork
from tests.evidence import record
from tests.simulation.scenarios import SCENARIOS, Crashing, Scenario, finish, live

AT_ONCE = 16
"""Points at a time, on a server: most of a life is waiting."""


@dataclass(frozen=True)
class Point:
    """Where a process dies: before or after its n-th call."""

    scenario: str
    call: int
    after: bool

    @property
    def queue(self) -> str:
        name = self.scenario.replace(" ", "-").replace(",", "")
        return f"{name}-{self.call}-{'after' if self.after else 'before'}"

    @property
    def sent(self) -> bool:
        """Whether the sender had its answer: the first call is the send."""
        return self.call > 1


@dataclass
class Report:
    """What came of a sweep."""

    store: str
    points: int = 0
    survived: int = 0
    faults: list[str] = field(default_factory=list)

    def line(self, seconds: float) -> str:
        return (
            f"{self.store}: {self.points} points, {len(self.faults)} faults, "
            f"{self.survived} beyond the last call, in {seconds:.0f} s"
        )


def sweep_memory(scenario: Scenario, above: Callable[[Store], Store] = lambda it: it) -> Report:
    """Every point of a scenario, in simulated time. `above` is what the worker has of the store."""
    report, call = Report("memory"), 0
    while True:
        call += 1
        for after in (False, True):
            died, wrong = _in_simulation(scenario, call, after, above)
            if not died:
                report.survived += 1
                return report
            report.points += 1
            report.faults += [f"{scenario.name} {call} after={after}: {one}" for one in wrong]


def _in_simulation(
    scenario: Scenario, call: int, after: bool, above: Callable[[Store], Store]
) -> tuple[bool, list[str]]:
    simulation = Simulation(call)
    clock = simulation.clock
    store = MemoryBroker(clock=clock)
    first = simulation.process("first")

    async def die() -> None:
        first.kill()
        await asyncio.get_running_loop().create_future()

    async def direct() -> tuple[bool, list[str]]:
        broker = above(Crashing(store, call, after, die))
        task = first.start(live(broker, "jobs", scenario, clock))
        while first.alive and not task.done():
            await asyncio.sleep(0.5)
        wrong = await finish(store, "jobs", scenario, sent=call > 1, clock=clock)
        return not first.alive, wrong

    return simulation.run(direct())


def sweep_server(store: str, url: str, points: Sequence[Point]) -> tuple[Report, set[Point]]:
    """These points, with real processes; and those at which nobody died any more."""
    report, survivors = Report(store), set[Point]()
    for start in range(0, len(points), AT_ONCE):
        some = points[start : start + AT_ONCE]
        pids = {fork(lambda point=point: _die(url, point)): point for point in some}  # type: ignore[misc]
        for pid, point in pids.items():
            _, status = os.waitpid(pid, 0)
            if not os.WIFSIGNALED(status):
                survivors.add(point)
        for point, wrong in asyncio.run(_finish_all(url, some)):
            report.faults += [f"{point}: {one}" for one in wrong]
        report.points += len(some)
    report.survived = len(survivors)
    report.points -= len(survivors)
    return report, survivors


async def _die(url: str, point: Point) -> None:
    async def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    async with bee.connect(url) as broker:
        crashing = Crashing(broker, point.call, point.after, die)
        await live(crashing, point.queue, SCENARIOS[point.scenario])


async def _finish_all(url: str, points: Sequence[Point]) -> list[tuple[Point, list[str]]]:
    async with bee.connect(url) as broker:
        work = [
            finish(broker, point.queue, SCENARIOS[point.scenario], sent=point.sent)
            for point in points
        ]
        return list(zip(points, await asyncio.gather(*work), strict=True))


def every_point(calls: range) -> Iterator[Point]:
    """Of all scenarios, in turn."""
    for call in calls:
        for name in SCENARIOS:
            for after in (False, True):
                yield Point(name, call, after)


def sweep_whole(store: str, url: str) -> Report:
    """Until nobody dies any more."""
    report, done, first = Report(store), set[str](), 1
    while len(done) < len(SCENARIOS):
        points = [p for p in every_point(range(first, first + 4)) if p.scenario not in done]
        some, survivors = sweep_server(store, url, points)
        report.points += some.points
        report.survived += some.survived
        report.faults += some.faults
        done |= {point.scenario for point in survivors}
        first += 4
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--store", choices=("memory", *stores.NAMES), default="memory")
    parser.add_argument("--record", action="store_true", help="for docs/explanation/evidence.md")
    options = parser.parse_args()
    started = time.monotonic()
    if options.store == "memory":
        report = Report("memory")
        for scenario in SCENARIOS.values():
            one = sweep_memory(scenario)
            report.points += one.points
            report.survived += one.survived
            report.faults += one.faults
    else:
        server = stores.durable(options.store)
        try:
            report = sweep_whole(options.store, stores.sparing(server))
        finally:
            server.stop()
    for fault in report.faults:
        print(fault)
    seconds = time.monotonic() - started
    print(report.line(seconds))
    if options.record:
        record(
            f"crashes-{options.store}",
            command=f"python -m tests.simulation.sweep --store {options.store}",
            figures={"points": report.points, "seconds": round(seconds)},
            faults=report.faults,
        )
    return len(report.faults) > 0


if __name__ == "__main__":
    sys.exit(main())
