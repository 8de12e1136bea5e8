"""How fast is bee, next to other libraries and to the limit?

    python -m benchmarks.run                    all of it, about 55 minutes; then python -m benchmarks.report
    python -m benchmarks.run --short            a look: bee and the limit, in this environment, under 90 s
    python -m benchmarks.run --only bee saq --workloads drain kill --store redis

Every contender (contenders/STORE_LIBRARY.py) runs in an environment of its own, made from its header, and
every measurement has a server of its own. Contenders take turns within a workload, round by round.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import noise, servers
from benchmarks.bench import Bench, say
from benchmarks.contender import STORES, find
from benchmarks.results import LATEST, Machine, Results, write
from benchmarks.workloads import WORKLOADS

SHORT = ("send", "send-many", "drain")


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="WORD", help="of a contender's name"
    )
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=[])
    parser.add_argument("--store", nargs="+", choices=STORES, default=STORES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--scale", type=float, default=1.0, help="less than 1: less work, for a look"
    )
    parser.add_argument("--short", action="store_true", help="bee and the limit, here and quickly")
    parser.add_argument("--out", type=Path, help=f"where the results go; {LATEST.name} by default")
    given = parser.parse_args()
    if given.short:
        given.only = given.only or ["_bee", "_raw"]
        given.workloads = given.workloads or SHORT
        given.rounds, given.scale = 1, 0.3
    return given


def main() -> None:
    given = options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what we started is ended
    began = time.monotonic()
    contenders = find(given.only, given.store, here=given.short)
    say(f"{len(contenders)} contenders: {' '.join(one.name for one in contenders)}")
    bench = Bench(contenders=contenders, rounds=given.rounds, scale=given.scale)
    versions = {store: _version(store) for store in given.store if bench.on(store)}
    out = None if given.short and given.out is None else given.out or LATEST
    for name in given.workloads or WORKLOADS:
        since = time.monotonic()
        WORKLOADS[name](bench)
        say(f"{name}: {time.monotonic() - since:.0f} s")
        results = _results(bench, versions, (time.monotonic() - began) / 60)
        if out is not None:  # after each, so that an hour's work is not lost by what comes last
            write(results, out)
    _summarise(results)
    if any(s.problem for s in results.samples if s.contender.endswith(("_bee", "_raw"))):
        sys.exit("bee or the limit could not be measured")


def _results(bench: Bench, versions: dict[str, str], minutes: float) -> Results:
    return Results(
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        minutes=round(minutes, 1),
        command=" ".join(["python -m benchmarks.run", *sys.argv[1:]]),
        machine=Machine(
            processors=os.cpu_count() or 1,
            model=noise.model(),
            kernel=noise.kernel(),
            python=platform.python_version(),
            servers=versions,
        ),
        entries=[one.entry for one in bench.contenders],
        samples=bench.samples,
    )


def _version(store: str) -> str:
    server = servers.start(store)
    try:
        return server.version
    finally:
        server.stop()


def _summarise(results: Results) -> None:
    """Rates, for who looks at the screen."""
    for workload in ("send", "send-many", "drain"):
        for entry in results.entries:
            rate = results.median(workload, entry.name, "rate")
            limit = results.median(workload, f"{entry.store}_raw", "rate")
            if rate is not None:
                part = f"{rate / limit:6.0%} of the limit" if limit else ""
                print(f"{workload:10} {entry.name:22} {rate:10,.0f}/s {part}")


if __name__ == "__main__":
    main()
