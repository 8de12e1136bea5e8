"""All storms on one store, one after the other, and one table.

    python -m tests.chaos --store valkey

At full length these are 2,500 kill -9s of workers, 100 of the server, 5,000 broken connections and
200,000 jobs: about ten minutes. `--scale 0.01` is a taste of it. `--record` writes the figures to
docs/evidence, of which the page docs/explanation/evidence.md is made.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from operator import add

from tests.chaos import clocks, stores, storm, tasks
from tests.chaos.report import Report, table
from tests.chaos.storm import Plan
from tests.evidence import record

NAMES = ("memory", *stores.NAMES)
STORMS = {
    "kills": Plan(jobs=6_000, seconds=120, kills=2_000, processes=20, longest=1000, history=True),
    "restarts": Plan(jobs=60_000, seconds=120, restarts=80, processes=8),
    "breaks": Plan(jobs=65_000, seconds=90, breaks=4_000, processes=24, lease=4),
    "stops": Plan(jobs=20_000, seconds=30, stops=100, processes=24, history=True),
    "clocks": Plan(jobs=10_000, seconds=30, jumps=50, processes=6),
    "all at once": Plan(
        jobs=45_000,
        seconds=90,
        kills=500,
        restarts=20,
        breaks=1_000,
        stops=20,
        processes=20,
        lease=4,
    ),
}
IN_MEMORY = {
    "kills": Plan(jobs=150_000, seconds=100, kills=2_000, processes=20, longest=100),
    "all at once": Plan(jobs=60_000, seconds=50, kills=500, breaks=5_000, processes=20),
}


def scaled(plan: Plan, scale: float, seed: int) -> Plan:
    """The same, so much shorter."""

    def part(number: int) -> int:
        return -int(-number * scale // 1)

    return replace(
        plan,
        seconds=max(plan.seconds * scale, 3.0),
        jobs=part(plan.jobs),
        kills=part(plan.kills),
        restarts=part(plan.restarts),
        breaks=part(plan.breaks),
        stops=part(plan.stops),
        jumps=part(plan.jumps),
        seed=seed,
    )


def run_all(store: str, scale: float, seed: int, only: list[str]) -> Iterator[tuple[str, Report]]:
    """Each storm's name and report, as they end."""
    storms = IN_MEMORY if store == "memory" else STORMS
    for name, plan in storms.items():
        if only and name not in only:
            continue
        if plan.jumps and clocks.library() is None:
            print("no libfaketime here (apt install faketime): no clock jumps", flush=True)
            continue
        short = scaled(plan, scale, seed)
        yield name, tasks.run(short) if store == "memory" else storm.run(store, short)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--store", choices=NAMES, default="valkey")
    parser.add_argument("--scale", type=float, default=1.0, help="1 is the full length")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", default=[], choices=STORMS, help="one storm")
    parser.add_argument("--record", action="store_true", help="write the figures to docs/evidence")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left behind
    started, reports = time.monotonic(), {}
    for name, report in run_all(options.store, options.scale, options.seed, options.only):
        reports[name] = report
        took = time.monotonic() - started
        print(f"{took:7.1f} s  {name}: {'; '.join(report.faults) or 'held'}", flush=True)
    total = reduce(add, reports.values())
    faults = [f"{name}: {fault}" for name, report in reports.items() for fault in report.faults]
    print()
    print("\n".join(table({**reports, "together": total})))
    for fault in faults:
        print(f"FAULT: {fault}")
    if options.record:
        record(
            f"chaos-{options.store}",
            command=f"python -m tests.chaos --store {options.store} --seed {options.seed}",
            figures={**total.figures(), "seed": options.seed},
            faults=faults,
            versions=stores.versions(options.store),
        )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
