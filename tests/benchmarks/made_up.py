"""Results that nobody measured, to see what is made of them."""

from __future__ import annotations

from benchmarks.results import Entry, Machine, Results, Sample


def results(*samples: Sample) -> Results:
    """A run with these samples, of bee, the limit, and three peers on Redis."""
    names = ["redis_bee", "redis_raw", "redis_swift", "redis_safe", "redis_slow"]
    return Results(
        date="2026-01-02 03:04 UTC",
        minutes=1.0,
        command="python -m benchmarks.run",
        machine=Machine(processors=2, model="abacus", kernel="Linux", python="3.11", servers={}),
        entries=[
            Entry(name=name, title=name.partition("_")[2], version="1.0", about="")
            for name in names
        ],
        samples=list(samples),
    )


def sample(workload: str, contender: str, round: int = 0, **figures: float) -> Sample:
    return Sample(workload=workload, contender=contender, round=round, figures=figures)


def lost(contender: str) -> Sample:
    """What a contender gets whose job never ran again."""
    return Sample(workload="kill", contender=contender, round=0, problem="not run again")
