"""A run under way: who takes part, how fast each was so far, and what has been found."""

from __future__ import annotations

import statistics
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from benchmarks import noise, servers
from benchmarks.contender import Contender, Trouble
from benchmarks.goals import NO_WORKERS
from benchmarks.rates import fitting
from benchmarks.results import Sample
from benchmarks.servers import BenchServer

SLOW = 0.3
"""The part of the fastest peer's speed below which a peer is measured once."""
RIVALS = 2
"""Peers of a store that are measured more often."""
DUELS = 3
"""So many rounds more. An even number in all: each is before the other as often as after it."""
CLOSE = 9
"""Where contenders are as fast as each other, and a round is short."""
Measure = Callable[[Contender], "Found"]


@dataclass(frozen=True)
class Found:
    """What one measurement found."""

    figures: dict[str, float]
    others: float = 0.0


@dataclass(kw_only=True)
class Bench:
    """What all workloads share.

    scale   1 for a run whose numbers count, less for a look
    """

    contenders: Sequence[Contender]
    rounds: int
    scale: float
    samples: list[Sample] = field(default_factory=list)
    _pace: dict[tuple[str, str], float] = field(default_factory=dict)

    def on(self, *stores: str) -> list[Contender]:
        return [one for one in self.contenders if one.entry.store in stores]

    def fastest(self, store: str, most: int = 1) -> list[Contender]:
        """bee, the limit, and the worker libraries of a store that drained fastest in this run."""
        ours = [one for one in self.on(store) if not one.entry.is_peer]
        peers = [one for one in self.on(store) if one.entry.is_peer and one.name not in NO_WORKERS]
        return ours + sorted(peers, key=self._drained, reverse=True)[:most]

    def in_rounds(
        self, workload: str, contenders: Sequence[Contender], measure: Measure, rounds: int = 0
    ) -> None:
        """Measure all, one after the other, and all of them again.

        Peers that had less than a part of the speed of the fastest peer are measured once: they will
        not be the fastest, and a slow one takes as long as a fast one. The machine's own speed changes
        within minutes, so those that are compared are measured next to each other.
        """
        for number in range(rounds or self.rounds):
            slow = self._slow(workload)
            near = sorted(contenders, key=lambda one: self._place(workload, one))
            # Who is first in one round is last in the next.
            for contender in near if number % 2 == 0 else near[::-1]:
                if contender.name not in slow:
                    self.one(workload, contender, number, measure)

    def in_duels(
        self, workload: str, contenders: Sequence[Contender], measure: Measure, duels: int = DUELS
    ) -> None:
        """As `in_rounds`; then some rounds more of bee, the limit and the fastest peers."""
        self.in_rounds(workload, contenders, measure)
        speeds = self._speeds(workload)
        near: list[Contender] = []
        for store in dict.fromkeys(one.entry.store for one in contenders):
            here = [one for one in contenders if one.entry.store == store]
            peers = [one for one in here if one.entry.is_peer]
            peers.sort(key=lambda one: speeds.get(one.name, 0.0), reverse=True)
            near += [one for one in here if not one.entry.is_peer or one in peers[:RIVALS]]
        near.sort(key=lambda one: self._place(workload, one))
        for number in range(self.rounds, self.rounds + duels if self.rounds > 1 else 0):
            for contender in near if number % 2 == 0 else near[::-1]:
                self.one(workload, contender, number, measure)

    def one(self, workload: str, contender: Contender, number: int, measure: Measure) -> None:
        """One measurement. What a contender cannot do is a finding, too."""
        if any(
            sample.problem.startswith("unsupported")
            for sample in self.samples
            if (sample.workload, sample.contender) == (workload, contender.name)
        ):
            return
        figures: dict[str, float] = {}
        others, problem = 0.0, ""
        try:
            found = measure(contender)
            figures, others = found.figures, found.others
        except Trouble as trouble:
            problem = str(trouble)
        except (
            Exception
        ) as error:  # of a server or of ours: the others shall be measured all the same
            traceback.print_exc()
            problem = f"{type(error).__name__}: {error}"[:200]
        self.samples.append(
            Sample(
                workload=workload,
                contender=contender.name,
                round=number,
                figures={name: round(value, 6) for name, value in figures.items()},
                load=round(noise.load(), 2),
                others=round(others, 3),
                problem=problem,
            )
        )
        shown = "  ".join(f"{name} {value:,.4g}" for name, value in figures.items())
        say(f"{workload:14} {contender.name:22} {number + 1}  {shown or problem}")

    def jobs(
        self, kind: str, contender: Contender, probe: Callable[[], float], seconds: float, most: int
    ) -> int:
        """How many jobs this contender does in about so many seconds; found by a probe, once."""
        key = (kind, contender.name)
        if key not in self._pace:
            self._pace[key] = probe()
        return fitting(self._pace[key], self.scale * seconds, 40, most)

    def learn(self, kind: str, contender: Contender, rate: float) -> None:
        """For the next round."""
        self._pace[kind, contender.name] = rate

    def _drained(self, contender: Contender) -> float:
        return self._speeds("drain").get(contender.name, 0.0)

    def _place(self, workload: str, contender: Contender) -> tuple[str, float]:
        """Those of a store together, by speed as far as it is known."""
        return contender.entry.store, self._speeds(workload).get(contender.name, 0.0)

    def _slow(self, workload: str) -> set[str]:
        peers = {one.name: one.entry.store for one in self.contenders if one.entry.is_peer}
        speeds = {name: speed for name, speed in self._speeds(workload).items() if name in peers}
        best: dict[str, float] = {}
        for name, speed in speeds.items():
            best[peers[name]] = max(speed, best.get(peers[name], 0.0))
        return {name for name, speed in speeds.items() if speed < SLOW * best[peers[name]]}

    def _speeds(self, workload: str) -> dict[str, float]:
        """Jobs a second, or where that is not what counts, pick-ups."""
        found: dict[str, list[float]] = {}
        for sample in self.samples:
            if sample.workload == workload and ({"rate", "p50"} & sample.figures.keys()):
                figures = sample.figures
                speed = figures["rate"] if "rate" in figures else 1 / figures["p50"]
                found.setdefault(sample.contender, []).append(speed)
        return {name: statistics.median(speeds) for name, speeds in found.items()}


@contextmanager
def server_for(contender: Contender) -> Iterator[BenchServer]:
    """A server with nothing in it, thrown away afterwards."""
    server = servers.start(contender.entry.store)
    try:
        yield server
    finally:
        server.stop()


def say(line: str) -> None:
    """To whoever watches."""
    print(line, file=sys.stderr, flush=True)
