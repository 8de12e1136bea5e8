"""What a run of the benchmark found: frozen data, kept as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

import msgspec

LATEST = Path(__file__).parent / "results" / "latest.json"


class Sample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One measurement of one contender.

    figures   by name, as in `workloads.py`; none if there is a problem
    load      the load average of the machine when it ended
    others    processors that programs which are not ours used meanwhile, on average
    problem   why there are no figures
    """

    workload: str
    contender: str
    round: int
    figures: dict[str, float] = {}
    load: float = 0.0
    others: float = 0.0
    problem: str = ""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """Who took part."""

    name: str
    title: str
    version: str
    about: str

    @property
    def store(self) -> str:
        return self.name.partition("_")[0]

    @property
    def is_peer(self) -> bool:
        return not self.name.endswith(("_bee", "_raw"))


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where it was."""

    processors: int
    model: str
    kernel: str
    python: str
    servers: dict[str, str]


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run."""

    date: str
    minutes: float
    command: str
    machine: Machine
    entries: list[Entry]
    samples: list[Sample]

    def of_store(self, store: str) -> list[Entry]:
        return [entry for entry in self.entries if entry.store == store]

    def values(self, workload: str, contender: str, figure: str) -> list[float]:
        """That figure in every round in which it was found."""
        return [
            sample.figures[figure]
            for sample in self.samples
            if (sample.workload, sample.contender) == (workload, contender)
            and figure in sample.figures
        ]

    def median(self, workload: str, contender: str, figure: str) -> float | None:
        """The middle one; none if there is none."""
        values = self.values(workload, contender, figure)
        return statistics.median(values) if values else None

    def ratio(self, figure: str, one: tuple[str, str], other: tuple[str, str]) -> float | None:
        """Of two contenders (or of one, in two workloads): the middle one of the rounds' ratios.

        Not that of the medians: the machine's own speed differs more between rounds than they do.
        """
        found: list[dict[int, float]] = [
            {
                sample.round: sample.figures[figure]
                for sample in self.samples
                if (sample.workload, sample.contender) == which and figure in sample.figures
            }
            for which in (one, other)
        ]
        ours, theirs = found
        ratios = [ours[number] / theirs[number] for number in ours if theirs.get(number)]
        return statistics.median(ratios) if ratios else None

    def problem(self, workload: str, contender: str) -> str:
        """Why a contender has no figures of a workload."""
        problems = (
            sample.problem
            for sample in self.samples
            if (sample.workload, sample.contender) == (workload, contender)
        )
        return next(filter(None, problems), "")

    def survives(self, contender: str) -> bool:
        """Whether its job ran again after kill -9, as measured."""
        return bool(self.values("kill", contender, "seconds"))

    def peers(self, store: str, *, surviving: bool = False) -> Iterator[Entry]:
        """The other libraries on a store; only those that survive a kill -9, if that is asked."""
        for entry in self.of_store(store):
            if entry.is_peer and (self.survives(entry.name) or not surviving):
                yield entry


def read(path: Path = LATEST) -> Results:
    return msgspec.json.decode(path.read_bytes(), type=Results)


def write(results: Results, path: Path = LATEST) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
