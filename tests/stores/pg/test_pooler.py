"""Behind PgBouncer in transaction mode: everything works, and nothing has to be configured."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

import bee_core as bee
from bee_core.disposition import Archive, Delete
from bee_core.message import Draft, Sent
from bee_core.stored import State
from bee_core.testing.conformance.guards import verbs
from bee_pg import PgBroker
from tests.servers import PgBouncer

from .support import QUEUE, ask, at_most, brokers, ids, lease, send, settle


class Work(bee.Job):
    number: int = 0


@pytest.fixture
async def pooled(pgbouncer: PgBouncer) -> AsyncIterator[PgBroker]:
    async with PgBroker(pgbouncer.database(), migrate=True) as broker:
        yield broker


async def test_every_verb_works_behind_a_pooler(pooled: PgBroker) -> None:
    for _ in range(3):
        for name, call in verbs(pooled, QUEUE).items():
            await call()
            assert name
    await pooled.drop(QUEUE)

    assert [Sent.CREATED] * 50 == await send(pooled, *(f"m{n:02}" for n in range(50)))
    leases = await asyncio.gather(*(lease(pooled, 5) for _ in range(10)))
    held = [one for some in leases for one in some]
    assert [f"m{n:02}" for n in range(50)] == sorted(ids(held))
    assert set() == await pooled.extend(QUEUE, [one.receipt for one in held], duration=60)
    assert set() == await settle(pooled, held, Archive())
    assert 50 == len((await pooled.scan(QUEUE, State.ARCHIVED)).items)
    assert set() == await pooled.restore(QUEUE, ["m01"])
    assert 49 == await pooled.prune(QUEUE)
    assert set() == await pooled.cancel(QUEUE, ["m01"], to=Delete())


async def test_many_who_migrate_behind_a_pooler_migrate_once(pgbouncer: PgBouncer) -> None:
    url = pgbouncer.database()
    async with brokers(url, 8, deadline=20) as some:
        await asyncio.gather(*(send(broker, str(n)) for n, broker in enumerate(some)))
        assert 8 == (await some[0].stats(QUEUE)).live


async def test_a_pooler_leaves_no_session_of_bees_behind_the_next_one(
    pgbouncer: PgBouncer, pooled: PgBroker
) -> None:
    """Settings of a session would be somebody else's, in the next transaction."""
    await send(pooled, "a")
    await lease(pooled)
    name = pooled._parameters["dbname"]
    url = pgbouncer.url.replace("/postgres?", f"/{name}?")
    shown = [ask(url, f"show {setting}")[0][0] for setting in ("lock_timeout", "search_path")]
    assert ["0", '"$user", public'] == shown
    assert "read committed" == ask(url, "show default_transaction_isolation")[0][0]


async def test_who_waits_behind_a_pooler_polls(pooled: PgBroker) -> None:
    await pooled.wait(QUEUE, timeout=0.01)  # found out that notifications do not arrive
    waiting = asyncio.create_task(pooled.wait(QUEUE, timeout=60))
    await asyncio.sleep(0.1)

    await send(pooled, "a")

    with at_most(3):
        await waiting
    assert not await pooled._ears().hears()


async def test_a_worker_works_behind_a_pooler(pooled: PgBroker) -> None:
    done: list[int] = []

    async def handle(job: Work) -> None:
        done.append(job.number)

    queue = bee.Queue(pooled, QUEUE, Work)
    await pooled.send(QUEUE, [queue.draft(Work(n)) for n in range(200)])
    await bee.Worker(pooled, QUEUE, Work, handle, observers=()).run(until_empty=True)

    assert list(range(200)) == sorted(done)
    assert 0 == (await pooled.stats(QUEUE)).live


async def test_a_pooler_with_one_connection_is_enough(pgbouncer: PgBouncer) -> None:
    narrow = PgBouncer(pgbouncer.binary, pgbouncer.server, "default_pool_size = 1")
    try:
        async with brokers(narrow.database(), 2) as (first, second):
            drafts = [Draft(str(n), b"") for n in range(30)]
            await asyncio.gather(*(first.send(QUEUE, [draft]) for draft in drafts))
            leases = await asyncio.gather(*(lease(second, 3) for _ in range(10)))
            assert 30 == len({one.receipt.id for some in leases for one in some})
    finally:
        narrow.stop()
