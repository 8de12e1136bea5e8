"""Plants every bug, one after the other, and prints what has noticed it."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

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
    options = parser.parse_args()
    os.environ.pop("CI", None)
    began, slowest, missed, total = time.monotonic(), 0.0, 0, 0
    for part, bug, found in caught(options.part or list(PARTS)):
        total += 1
        missed += found is None
        slowest = max(slowest, found.seconds if found else 0.0)
        seen = f"{found.seconds:5.1f} s  {found.by}" if found else "NOT NOTICED"
        print(f"{part:7} {bug.name:67} {seen}", flush=True)
    seconds = time.monotonic() - began
    print(
        f"{total - missed} of {total} noticed in {seconds:.0f} s, the slowest after {slowest:.1f} s"
    )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
