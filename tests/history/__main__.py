"""Processes that die at any point work on one queue for five minutes; their history is checked.

python -m tests.history --store valkey --minutes 5
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.chaos import stores
from tests.chaos.verdict import tell
from tests.evidence import record
from tests.history.run import History, run


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--store", choices=stores.NAMES, default="valkey")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", action="store_true", help="write the figures to docs/evidence")
    options = parser.parse_args()
    history = _on(options.store, 60 * options.minutes, options.seed)
    if options.record:
        asked = f"--store {options.store} --minutes {options.minutes:g} --seed {options.seed}"
        record(
            f"history-{options.store}",
            command=f"python -m tests.history {asked}",
            figures=history.figures(),
            faults=history.faults,
            versions=stores.versions(options.store),
        )
    return tell(history)


def _on(store: str, seconds: float, seed: int) -> History:
    server = stores.durable(store)
    try:
        with TemporaryDirectory() as directory:
            return asyncio.run(run(server.url, Path(directory), seconds=seconds, seed=seed))
    finally:
        server.stop()


if __name__ == "__main__":
    sys.exit(main())
