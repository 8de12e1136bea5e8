"""Plants every bug, one after the other, and prints what has noticed it."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tests.evidence import record
from tests.planted import lua, proofs, sql, worker
from tests.planted.bug import Bug
from tests.planted.proofs import Caught
from tests.servers import PgServer, RedisServer, valkey_binary

PARTS = {"redis": lua.BUGS, "pg": sql.BUGS, "worker": worker.BUGS}


def caught(parts: Sequence[str]) -> Iterator[tuple[str, Bug, Caught | None]]:
    """Each bug of these parts, and what has noticed it."""
    for part in parts:
        bugs = PARTS[part]
        if part == "worker":  # in processes of their own: two at a time
            with ThreadPoolExecutor(2) as pool:
                for bug, found in zip(bugs, pool.map(proofs.in_worker, bugs), strict=True):
                    yield part, bug, found
            continue
        server = RedisServer(valkey_binary()) if part == "redis" else PgServer(18)
        prove = proofs.on_redis if part == "redis" else proofs.on_pg
        notice: Callable[[Bug], Caught | None] = partial(prove, url=server.url)
        try:
            for bug in bugs:
                yield part, bug, notice(bug)
        finally:
            server.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--part", choices=PARTS, action="append", help="only these")
    parser.add_argument("--record", action="store_true", help="for docs/explanation/evidence.md")
    options = parser.parse_args()
    os.environ.pop("CI", None)
    began, slowest, counts = time.monotonic(), 0.0, Counter[str]()
    missed: list[str] = []
    for part, bug, found in caught(options.part or list(PARTS)):
        counts[part] += 1
        missed += [] if found else [f"nothing notices it: {bug.name}"]
        slowest = max(slowest, found.seconds if found else 0.0)
        seen = f"{found.seconds:5.1f} s  {found.by}" if found else "NOT NOTICED"
        print(f"{part:7} {bug.name:67} {seen}", flush=True)
    figures = {
        "bugs in Redis scripts": counts["redis"],
        "bugs in SQL functions": counts["pg"],
        "bugs in the worker": counts["worker"],
        "noticed": counts.total() - len(missed),
        "the slowest after, s": round(slowest, 1),
        "seconds": round(time.monotonic() - began, 1),
    }
    print("\n".join(f"{name:22} {value}" for name, value in figures.items()))
    if options.record:
        record("planted", command="python -m tests.planted", figures=figures, faults=missed)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
