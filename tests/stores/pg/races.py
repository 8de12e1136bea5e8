"""Two who want the same messages, inside open transactions of theirs: one gets each, none an error.

    python -m tests.stores.pg.races --rounds 10000

The functions are called over plain connections, with BEGIN and COMMIT drawn apart by chance, so
that the locks of one call are held while the other is under way.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections import Counter

import psycopg

from bee_core.disposition import Delete, Disposition, Reschedule
from bee_core.ids import new_id
from bee_core.message import Counters, Draft, Keep, Receipt, Settlement, Update
from bee_pg import PgBroker
from tests.servers import PgServer

MESSAGES = 6
QUEUE = "races"

Connection = psycopg.AsyncConnection[tuple[object, ...]]


async def race(url: str, rounds: int, seed: int = 0) -> Counter[str]:
    """So many rounds; how often each thing happened. Raises AssertionError if a rule is broken."""
    chance = random.Random(seed)
    happened: Counter[str] = Counter()
    async with (
        PgBroker(url, migrate=True, deadline=20) as broker,
        await psycopg.AsyncConnection.connect(url) as first,
        await psycopg.AsyncConnection.connect(url) as second,
    ):
        for _ in range(rounds):
            await broker.drop(QUEUE)
            await _round(broker, first, second, chance, happened)
    return happened


async def _round(
    broker: PgBroker,
    first: Connection,
    second: Connection,
    chance: random.Random,
    happened: Counter[str],
) -> None:
    names = [f"m{n}" for n in range(MESSAGES)]
    await broker.send(QUEUE, [Draft(name, b"") for name in names])
    # Half of them are ready to be taken over: whoever is first decides.
    short = chance.random() < 0.5
    leases = await broker.lease(
        QUEUE, limit=MESSAGES, duration=0.001 if short else 60.0, holder="first"
    )
    receipts = [lease.receipt for lease in leases]
    verbs = chance.choices(["settle", "extend", "lease", "back", "update", "broker"], k=2)
    some = [chance.sample(receipts, k=chance.randint(1, MESSAGES)) for _ in range(2)]
    answers = await asyncio.gather(
        *(
            _act(broker, connection, verb, wanted, chance)
            for connection, verb, wanted in zip((first, second), verbs, some, strict=True)
        )
    )

    ended = Counter(
        receipt
        for verb, (applied, _) in zip(verbs, answers, strict=True)
        for receipt in applied
        if verb in ("settle", "back", "broker")
    )
    assert not [receipt for receipt, times in ended.items() if times > 1], (verbs, ended)
    tokens = Counter(token for _, taken in answers for token in taken)
    assert not [token for token, times in tokens.items() if times > 1], (verbs, tokens)
    stats = await broker.stats(QUEUE)
    deleted = {
        receipt.id
        for verb, (applied, _) in zip(verbs, answers, strict=True)
        for receipt in applied
        if verb in ("settle", "broker")
    }
    # An id that was deleted may be there again: an update of it came later.
    if "update" not in verbs:
        assert MESSAGES - len(deleted) == stats.live, (verbs, stats, deleted)
    assert stats.live >= MESSAGES - len(deleted)
    for verb, (applied, taken) in zip(verbs, answers, strict=True):
        happened[verb] += 1
        happened["applied"] += len(applied)
        happened["taken"] += len(taken)
    lost = sum(len(wanted) for wanted in some) - sum(len(applied) for applied, _ in answers)
    happened["lost or not asked"] += lost


async def _act(
    broker: PgBroker,
    connection: Connection,
    verb: str,
    receipts: list[Receipt],
    chance: random.Random,
) -> tuple[list[Receipt], list[int]]:
    """The receipts that the call was good for, and the tokens that it gave."""
    if verb == "broker":
        lost = await broker.settle(QUEUE, [Settlement(receipt, Delete()) for receipt in receipts])
        return [receipt for receipt in receipts if receipt not in lost], []
    names, tokens = [r.id for r in receipts], [r.token for r in receipts]
    hold = chance.random() * 0.002
    async with connection.transaction():
        applied: list[Receipt] = []
        taken: list[int] = []
        if verb == "lease":
            found = await connection.execute(
                "select token from bee.lease(%s, %s, 60, 'other') where id is not null",
                [QUEUE, len(receipts)],
            )
            taken = [int(str(row[0])) for row in await found.fetchall()]
        elif verb == "update":
            drafts = [Draft(name, b"new", if_taken=Update()) for name in names]
            await connection.execute(
                "select * from bee.send(%s, %s, %s, %s, %s::int2[], %s::bytea[], %s::bytea[])",
                [
                    QUEUE,
                    names,
                    ["1a11"] * len(drafts),
                    [0.0] * len(drafts),
                    [0] * len(drafts),
                    [None] * len(drafts),
                    [b"new"] * len(drafts),
                ],
            )
        else:
            call: str
            more: list[object]
            if verb == "extend":
                call, more = "extend(%s, %s, %s, 60)", []
            elif verb == "settle":
                call, more = "settle(%s, %s, %s, %s)", ["D" * len(names)]
            else:
                n = len(names)
                call = "settle(%s, %s, %s, %s, %s, %s, %s::text[], %s::bytea[])"
                more = ["R" * n, [0.0] * n, [0] * 6 * n, [None] * n, [None] * n]
            found = await connection.execute(f"select bee.{call}", [QUEUE, names, tokens, *more])
            row = await found.fetchone()
            assert row is not None
            numbers = row[0]
            assert isinstance(numbers, list)
            applied = [r for n, r in enumerate(receipts, 1) if n not in numbers]
        await asyncio.sleep(hold)
    return applied, taken


async def overlap(url: str, rounds: int, clients: int = 8) -> Counter[str]:
    """Many send, settle and cancel the same ids, each in an order of its own."""
    happened: Counter[str] = Counter()
    names = [f"n{n:02}" for n in range(20)]

    async def client(broker: PgBroker, number: int) -> None:
        chance = random.Random(number)
        for turn in range(rounds):
            mine = names if (number + turn) % 2 else names[::-1]
            mine = chance.sample(mine, 12) if chance.random() < 0.5 else mine
            rule = Update() if chance.random() < 0.7 else Keep()
            await broker.send(QUEUE, [Draft(name, b"", if_taken=rule) for name in mine])
            happened["send"] += 1
            if turn % 3 == 0:
                leases = await broker.lease(QUEUE, limit=10, duration=60, holder=str(number))
                ways: list[Disposition] = [Delete(), Reschedule(), Reschedule(front=True)]
                settlements = [
                    Settlement(
                        lease.receipt,
                        chance.choice(ways),
                        counters=Counters(errors=1),
                        then=[Draft(new_id(), b"")],
                    )
                    for lease in chance.sample(leases, len(leases))
                ]
                assert not await broker.settle(QUEUE, settlements)
                happened["settle"] += 1
            if turn % 7 == 0:
                await broker.cancel(QUEUE, mine[:3], to=Delete(), running=False)
                happened["cancel"] += 1

    async with PgBroker(url, migrate=True, deadline=20) as broker:
        await broker.drop(QUEUE)
        some = [broker.clone() for _ in range(clients)]
        try:
            await asyncio.gather(*(client(each, n) for n, each in enumerate(some)))
        finally:
            for each in some:
                await each.aclose()
    return happened


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--major", type=int, default=18)
    parser.add_argument("--seed", type=int, default=0)
    wanted = parser.parse_args()
    server = PgServer(wanted.major)
    try:
        for name, work in (
            ("race", race(server.database(), wanted.rounds, wanted.seed)),
            ("overlap", overlap(server.database(), wanted.rounds // 20)),
        ):
            begun = time.monotonic()
            happened = asyncio.run(work)
            took = time.monotonic() - begun
            sys.stdout.write(f"{name}: {dict(happened)} in {took:.0f} s\n")
            deadlocks = server.ask("select sum(deadlocks) from pg_stat_database")[0][0]
            sys.stdout.write(f"deadlocks so far: {deadlocks}\n")
    finally:
        server.stop()


if __name__ == "__main__":
    main()
