"""What a change costs plain jobs: this checkout against another one, in turns, on the same machine.

    git clone . /tmp/before && git -C /tmp/before checkout -q v0.1.0
    python -m benchmarks.before_after /tmp/before --store pg --rounds 12

Each checkout has a server of its own, of the same kind and settings. In each round both send the same
plain jobs, one by one and in batches, and drain them; who is first changes every round. The ratio of
a round is that of two measurements a moment apart, so the noise of the machine is in both.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

BODY = b"x" * 200
ONE_BY_ONE, BATCH, BATCHES = 1_000, 100, 300
NAMES = ("send one by one", "send in batches", "drain in batches")


async def measure(url: str) -> list[float]:
    """Microseconds per job, of the checkout that PYTHONPATH leads to."""
    import bee_core as bee

    options = {"migrate": True} if url.startswith("postgresql") else {}
    if options:
        from bee_pg import PgBroker

        broker: bee.Store = PgBroker(url, migrate=True)
    else:
        broker = bee.connect(url)
    async with broker:
        await broker.drop("q")
        await broker.send("q", [bee.Draft("warm", BODY)])
        start = time.perf_counter()
        for _ in range(ONE_BY_ONE):
            await broker.send("q", [bee.Draft(bee.new_id(), BODY)])
        one = time.perf_counter() - start
        batches = [[bee.Draft(bee.new_id(), BODY) for _ in range(BATCH)] for _ in range(BATCHES)]
        start = time.perf_counter()
        for batch in batches:
            await broker.send("q", batch)
        many = time.perf_counter() - start
        start, count = time.perf_counter(), 0
        while leases := await broker.lease("q", limit=BATCH, duration=60, holder="h"):
            await broker.settle("q", [bee.Settlement(x.receipt, bee.Delete()) for x in leases])
            count += len(leases)
        drained = time.perf_counter() - start
    return [1e6 * one / ONE_BY_ONE, 1e6 * many / (BATCH * BATCHES), 1e6 * drained / count]


def child(checkout: Path, url: str) -> list[float]:
    """One measurement, in a process of its own."""
    environment = os.environ | {"PYTHONPATH": str(checkout)}
    command = [sys.executable, "-P", __file__, "--measure", url]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: list[float] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("before", nargs="?", type=Path)
    parser.add_argument("--store", choices=("valkey", "pg"), default="valkey")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(asyncio.run(measure(options.measure))))
        return
    if options.before is None:
        parser.error("name a directory with the other checkout")
    here = Path(__file__).parents[1]
    sys.path.insert(0, str(here))
    from tests.chaos import stores
    from tests.servers import PgServer

    servers: list[stores.Killable] = [
        PgServer(18, keep=True, durable=True) if options.store == "pg" else stores.durable("valkey")
        for _ in range(2)
    ]
    trees = [options.before.resolve(), here]
    ratios: list[list[float]] = [[], [], []]
    found: list[list[list[float]]] = [[], []]
    try:
        for n in range(options.rounds + 1):
            figures: list[list[float]] = [[], []]
            for which in (0, 1) if n % 2 else (1, 0):
                figures[which] = child(trees[which], servers[which].url)
            if n:  # the first round only warms up
                for which in (0, 1):
                    found[which].append(figures[which])
                for i in range(3):
                    ratios[i].append(figures[1][i] / figures[0][i])
    finally:
        for server in servers:
            server.stop()
    print(f"{options.store}, {options.rounds} rounds, µs per job, medians")
    for i, name in enumerate(NAMES):
        before, after = (statistics.median(figures[i] for figures in side) for side in found)
        least = min(f[i] for f in found[1]) / min(f[i] for f in found[0])
        middle = statistics.median(ratios[i])
        print(
            f"{name:18} before {before:8.1f}  after {after:8.1f}  ratio {middle:.3f}  of the best {least:.3f}"
        )


if __name__ == "__main__":
    main()
