"""The stores that the model test is run on, by one command each:

python -m tests.model.stores memory --runs 2600
python -m tests.model.stores valkey --runs 2600
python -m tests.model.stores pg --runs 2600

A run has up to so many steps; 2,600 of up to 50 have more than 100,000 in all.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable
from typing import Any

from bee_core.testing.model import Card, run_model
from bee_memory import MemoryBroker
from bee_pg import PgBroker
from bee_redis import RedisBroker
from tests.evidence import record
from tests.model.clocks import MovedClock, MovedPostgres, MovedValkey
from tests.servers import PgServer, RedisServer, valkey_binary

Run = Callable[..., Card]
"""`run(runs=, steps=, seed=)` on one store."""


def on_memory(kind: type[MemoryBroker] = MemoryBroker, **how: Any) -> Card:
    """On the memory broker, or a mutant of it."""
    clock = MovedClock()
    return run_model(lambda: kind(clock=clock), advance=clock.advance, **how)


def on_valkey(server: RedisServer, **how: Any) -> Card:
    """On Valkey or Redis; the server forgets its scripts now and then."""
    moved = MovedValkey(server)
    with moved.moved():
        return run_model(
            lambda: RedisBroker(server.url),
            advance=moved.advance,
            disturb=moved.flush_scripts,
            **how,
        )


def on_postgres(server: PgServer, **how: Any) -> Card:
    """On PostgreSQL."""
    asyncio.run(_migrate(server.url))
    moved = MovedPostgres(server)
    with moved.moved():
        return run_model(lambda: PgBroker(server.url), advance=moved.advance, **how)


async def _migrate(url: str) -> None:
    async with PgBroker(url, migrate=True) as broker:
        await broker.queues()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("store", choices=["memory", "valkey", "pg"])
    for option, usual in (("--runs", 2600), ("--steps", 50), ("--seed", 0)):
        parser.add_argument(option, type=int, default=usual)
    parser.add_argument("--record", action="store_true", help="for docs/explanation/evidence.md")
    options = vars(parser.parse_args())
    store, is_recorded = options.pop("store"), options.pop("record")
    match store:
        case "memory":
            card = on_memory(**options)
        case "valkey":
            server = RedisServer(valkey_binary())
            try:
                card = on_valkey(server, **options)
            finally:
                server.stop()
        case _:
            postgres = PgServer(18)
            try:
                card = on_postgres(postgres, **options)
            finally:
                postgres.stop()
    sys.stdout.write(f"{card}\n")
    if is_recorded:
        _record(store, card)
    return 0


def _record(store: str, card: Card) -> None:
    counted = ("runs", "steps", "messages leased", "leases taken over", "answers lost", "crashes")
    figures = {what: card.tally.get(what, 0) for what in (*counted, "moves of the clock")}
    record(
        f"model-{store}",
        command=f"python -m tests.model.stores {store} --runs {card.runs} --seed {card.seed}",
        figures=figures | {"seconds": round(card.seconds)},
        versions={} if store == "memory" else {"server": card.broker.rpartition(" on ")[2]},
    )


if __name__ == "__main__":
    sys.exit(main())
