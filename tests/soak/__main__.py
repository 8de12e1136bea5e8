"""A worker under load for an hour, and idle for a minute.

python -m tests.soak --store valkey --minutes 60
"""

from __future__ import annotations

import argparse
import sys

from tests.chaos import stores
from tests.chaos.verdict import tell
from tests.evidence import record
from tests.soak.soak import NAMES, run


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--store", choices=NAMES, default="valkey")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--idle", type=float, default=60.0, help="seconds without a job")
    parser.add_argument("--record", action="store_true", help="write the figures to docs/evidence")
    options = parser.parse_args()
    report = run(options.store, seconds=60 * options.minutes, idle=options.idle)
    if options.record:
        record(
            f"soak-{options.store}",
            command=f"python -m tests.soak --store {options.store} --minutes {options.minutes:g}",
            figures=report.figures(),
            faults=report.faults,
            versions=stores.versions(options.store),
        )
    return tell(report)


if __name__ == "__main__":
    sys.exit(main())
