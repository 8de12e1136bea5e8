"""The long form: a million hostile bodies decoded, some of them given to a worker on each store."""

from __future__ import annotations

import argparse
import asyncio
import sys

import bee_core as bee
from tests.evidence import record
from tests.fuzz import decoding, working
from tests.servers import PgServer, RedisServer, valkey_binary


async def work(url: str, bodies: int, seed: int) -> working.Working:
    async with bee.connect(url) as broker:
        return await working.run(broker, bodies, seed=seed, patience=600)


def given_to_workers(bodies: int, seed: int) -> list[str]:
    """What is wrong with what workers made of them, on every store."""
    valkey, pg = RedisServer(valkey_binary()), PgServer(18)
    try:
        faults = []
        for url in ("memory://", valkey.url, f"{pg.database()}&migrate=1"):
            faults += asyncio.run(work(url, bodies, seed)).faults
        return faults
    finally:
        valkey.stop()
        pg.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--decodes", type=int, default=1_000_000)
    parser.add_argument("--bodies", type=int, default=5_000, help="so many for each worker")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", action="store_true", help="for docs/explanation/evidence.md")
    options = parser.parse_args()
    outcome = decoding.run(options.decodes, seed=options.seed)
    figures = outcome.figures() | {"given to workers": 3 * options.bodies}
    for name, value in figures.items():
        print(f"{name:20} {value}", flush=True)
    faults = outcome.faults + given_to_workers(options.bodies, options.seed)
    for fault in faults[:20]:
        print(f"FAULT: {fault}")
    print(f"{len(faults)} faults")
    if options.record:
        command = f"python -m tests.fuzz --decodes {options.decodes} --seed {options.seed}"
        record("fuzz", command=command, figures=figures, faults=faults)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
