"""A process that migrates: connects, says `ready`, begins at a line on its input, prints each step.

    python -m tests.stores.pg_migrations.program URL [--more] [--halt STEP]

With --more its library has one migration more. With --halt it stops for good before that step, in
the middle of its transaction.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys

from bee_pg import migrate
from tests.stores.pg_migrations.support import connected


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def _main(url: str, halt: str | None) -> None:
    def report(step: str) -> None:
        _say(f"step {step}")
        if step == halt:
            signal.pause()

    async with connected(url) as connection:
        _say("ready")
        sys.stdin.readline()
        done = await migrate.apply(connection, "bee", report=report)
        _say(f"done {len(done)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--more", action="store_true")
    parser.add_argument("--halt")
    given = parser.parse_args()
    if given.more:
        column = "alter table message add column extra integer;"
        more = migrate.Migration(migrate.latest().version + 1, "more", column)
        every = (*migrate.migrations(), more)
        migrate.migrations = lambda: every  # type: ignore[assignment]
    asyncio.run(_main(given.url, given.halt))
