"""Simulated runs by the thousand, or one of them with all that happens in it.

python -m tests.simulation --seeds 100000
python -m tests.simulation --seed 42
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.evidence import record
from tests.simulation.cheap import cheap_texts
from tests.simulation.world import World

CHUNK = 200


@dataclass
class Figures:
    """What came of some seeds."""

    seeds: int = 0
    jobs: int = 0
    runs: int = 0
    kills: int = 0
    faults: int = 0
    turns: int = 0
    hours: float = 0.0
    failed: dict[int, list[str]] = field(default_factory=dict)

    def add(self, other: Figures) -> None:
        for name in ("seeds", "jobs", "runs", "kills", "faults", "turns", "hours"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.failed |= other.failed

    def line(self, seconds: float) -> str:
        return (
            f"{self.seeds} seeds, {len(self.failed)} failed; {self.jobs} jobs, {self.runs} runs, "
            f"{self.kills} workers killed, {self.faults} calls that went wrong, "
            f"{self.hours:.0f} simulated hours, {self.turns} steps, in {seconds:.0f} s"
        )


def play(first: int, count: int) -> Figures:
    """So many seeds, one after the other."""
    figures = Figures()
    with cheap_texts():
        for seed in range(first, first + count):
            world = World(seed)
            if wrong := world.run():
                figures.failed[seed] = wrong
            figures.add(_of(world))
    return figures


def _of(world: World) -> Figures:
    books = world.books
    return Figures(
        seeds=1,
        jobs=len(books.created),
        runs=len(books.runs),
        kills=sum(not member.was_alive for member in books.members.values()),
        faults=books.faults,
        turns=world.simulation.turns,
        hours=world.simulation.now / 3600,
    )


def _play_chunk(chunk: tuple[int, int]) -> Figures:
    gc.disable()  # the process ends before it matters
    return play(*chunk)


def play_all(first: int, count: int, processes: int) -> Figures:
    """On several processors; each process plays some seeds and is replaced."""
    chunks = [(at, min(CHUNK, first + count - at)) for at in range(first, first + count, CHUNK)]
    total = Figures()
    context = multiprocessing.get_context("fork")
    with context.Pool(processes, maxtasksperchild=1) as pool:
        for figures in pool.imap_unordered(_play_chunk, chunks):
            total.add(figures)
            for seed, wrong in figures.failed.items():
                print(f"seed {seed}: {wrong[0]}", flush=True)
    return total


def replay(seed: int) -> int:
    """One seed, with all that happens in it."""
    with cheap_texts():
        world = World(seed)
        wrong = world.run()
    for line in world.trace:
        print(*line)
    print("trace", world.trace_hash)
    print("\n".join(wrong) or "all is well")
    return len(wrong) > 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--nice", type=int, default=10)
    parser.add_argument("--seed", type=int, help="play this one alone, and tell all of it")
    parser.add_argument("--record", action="store_true", help="for docs/explanation/evidence.md")
    options = parser.parse_args(arguments)
    if options.seed is not None:
        return replay(options.seed)
    os.nice(options.nice)
    started = time.monotonic()
    figures = play_all(options.first, options.seeds, options.processes)
    seconds = time.monotonic() - started
    print(figures.line(seconds))
    if options.record:
        record(
            "simulation",
            command=f"python -m tests.simulation --seeds {options.seeds} --first {options.first}",
            figures={
                "seeds": figures.seeds,
                "jobs": figures.jobs,
                "runs": figures.runs,
                "workers killed": figures.kills,
                "calls that went wrong": figures.faults,
                "simulated hours": round(figures.hours),
                "seconds": round(seconds),
            },
            faults=[f"seed {seed}: {wrong[0]}" for seed, wrong in figures.failed.items()],
        )
    return len(figures.failed) > 0


if __name__ == "__main__":
    sys.exit(main())
