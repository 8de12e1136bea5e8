"""Keys and reports, with many who lease, settle, change and cancel at the same time."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, defaultdict

import psycopg
import pytest

from bee_core.disposition import Archive, Delete, Disposition, Reschedule
from bee_core.message import Draft, Rate, Settlement, Throttle, Update
from bee_pg import PgBroker

from .support import QUEUE, ask, at_most, brokers, ids, lease, lease_one, send, settle


async def test_a_key_never_has_two_holders_and_its_order_is_kept(url: str) -> None:
    names = [f"{n % 5} {n // 5:04}" for n in range(2000)]
    held: Counter[str] = Counter()
    came: dict[str, list[str]] = defaultdict(list)

    async def work(broker: PgBroker) -> None:
        while sum(map(len, came.values())) < len(names):
            leases = await broker.lease(QUEUE, limit=3, duration=60, holder="w")
            for one in leases:
                assert one.key is not None
                held[one.key] += 1
                assert 1 == held[one.key]
                came[one.key].append(one.receipt.id)
            if not leases:
                await broker.wait(QUEUE, timeout=1)
                continue
            await asyncio.sleep(0)
            held.subtract(str(one.key) for one in leases)
            assert set() == await settle(broker, leases)

    async with brokers(url, 8, pool_size=2) as some:
        await some[0].send(QUEUE, [Draft(name, b"", key=name[0]) for name in names])
        async with asyncio.timeout(60):
            await asyncio.gather(*map(work, some))
        assert 0 == (await some[0].stats(QUEUE)).live

    assert {key: sorted(found) for key, found in came.items()} == came


@pytest.mark.parametrize("seed", range(4))
async def test_nothing_is_forgotten_whatever_happens_to_those_of_a_key(url: str, seed: int) -> None:
    """They are repeated, archived, changed, put off, moved to another key, cancelled."""
    chance = random.Random(seed)
    keys = ["a", "b", None]
    names = [f"m{n:03}" for n in range(300)]
    holders: dict[str, set[str]] = defaultdict(set)
    ended: set[str] = set()
    stop = time.monotonic() + 4

    async def work(broker: PgBroker) -> None:
        while time.monotonic() < stop:
            leases = await broker.lease(QUEUE, limit=chance.randint(1, 4), duration=60, holder="w")
            for one in leases:
                if one.key is not None:
                    assert not holders[one.key], (one, holders)
                    holders[one.key].add(one.receipt.id)
            await asyncio.sleep(chance.random() * 0.002)
            ways: list[Disposition] = [
                Delete(),
                Archive(),
                Reschedule(),
                Reschedule(front=True),
                Reschedule(delay=0.01),
            ]
            for one in leases:
                if one.key is not None:
                    holders[one.key].discard(one.receipt.id)
            ends = [Settlement(one.receipt, chance.choice(ways)) for one in leases]
            lost = await broker.settle(QUEUE, ends)
            assert set() == lost
            for end in ends:
                if isinstance(end.disposition, Delete | Archive):
                    ended.add(end.receipt.id)
            if not leases:
                await asyncio.sleep(0.001)

    async def meddle(broker: PgBroker) -> None:
        while time.monotonic() < stop:
            some = chance.sample(names, 5)
            if chance.random() < 0.5:
                delay = chance.choice([0.0, 0.0, 0.02])
                rule = Update(run_at=chance.choice(["always", "never"]))
                await broker.send(
                    QUEUE,
                    [
                        Draft(id, b"", delay, key=chance.choice(keys), if_taken=rule)
                        for id in some
                        if id not in ended
                    ],
                )
            else:
                await broker.cancel(QUEUE, some, to=Delete(), running=False)
            await asyncio.sleep(0.001)

    async with brokers(url, 6, pool_size=2) as some:
        drafts = [Draft(name, b"", key=chance.choice(keys)) for name in names]
        await some[0].send(QUEUE, drafts)
        await asyncio.gather(*map(work, some[:4]), *map(meddle, some[4:]))
        await asyncio.sleep(0.05)
        left = (await some[0].stats(QUEUE)).live
        came = 0
        for _ in range(2 * left + 2):
            leases = await lease(some[0])
            came += len(leases)
            await settle(some[0], leases)
        assert (left, 0) == (came, (await some[0].stats(QUEUE)).live)


async def test_a_wake_up_is_not_lost_between_one_who_parks_and_one_who_settles(url: str) -> None:
    """Many short rounds: the last holder ends just as the next one is passed over."""
    async with brokers(url, 3, pool_size=2) as (one, two, three):
        for turn in range(150):
            await one.send(
                QUEUE, [Draft(f"a{turn}", b"", key="k"), Draft(f"b{turn}", b"", key="k")]
            )
            first = await lease_one(one)
            _, found, more = await asyncio.gather(
                settle(one, [first]), lease(two), lease(three), return_exceptions=False
            )
            leases = [*found, *more] or await lease(two)
            assert [f"b{turn}"] == ids(leases)
            await settle(two, leases)


async def test_one_that_a_transaction_has_locked_is_not_forgotten(
    url: str, broker: PgBroker
) -> None:
    """It is next, and somebody changes it, and then thinks better of it."""
    await send(broker, "a", "b", key="k")
    held = await lease_one(broker)
    assert [] == await lease(broker)
    async with await psycopg.AsyncConnection.connect(url) as other:
        await other.execute("select from bee.message where id = 'b' for update")
        await settle(broker, [held])
        assert [] == await lease(broker)
        await other.rollback()

    with at_most(1):
        await broker.wait(QUEUE, timeout=10)
    assert ["b"] == ids(await lease(broker))


async def test_cancelling_the_next_of_a_key_lets_the_one_behind_it_go(broker: PgBroker) -> None:
    await send(broker, "a", "b", "c", "d", key="k")
    held = await lease_one(broker)
    assert [] == await lease(broker)
    await send(broker, "first", priority=9)
    await settle(broker, [held])
    assert ["first"] == ids(await lease(broker, 1))  # and b stands in the line again

    await broker.cancel(QUEUE, ["b"], to=Delete())
    assert ["c"] == ids(await lease(broker, 1))


async def test_a_hundred_thousand_of_one_key_are_passed_quickly(url: str, broker: PgBroker) -> None:
    await broker.queues()
    await send(broker, "held", key="k")
    await lease_one(broker)
    ask(
        url,
        "insert into bee.message "
        "(queue, id, incarnation, number, priority, sent_at, due, body, key) "
        "select %s, 'k' || n, n, n, 0, now(), now(), '', 'k' "
        "from (select nextval('bee.number') as n from generate_series(1, 100000)) s",
        QUEUE,
    )
    await send(broker, "other")

    found: list[str] = []
    with at_most(20):
        while not found:
            found = ids(await lease(broker, 1))
    assert ["other"] == found
    await send(broker, "another")
    with at_most(0.5):
        assert ["another"] == ids(await lease(broker, 1))


async def test_a_rate_holds_for_all_who_lease(url: str) -> None:
    rate = Throttle(per_key=None, rate=Rate(20, 0.5))
    times: list[float] = []

    async def work(broker: PgBroker) -> None:
        while len(times) < 100:
            leases = await broker.lease(QUEUE, limit=7, duration=60, holder="w", throttle=rate)
            times.extend(one.leased_at for one in leases)
            if not leases:
                await broker.wait(QUEUE, timeout=1)

    async with brokers(url, 4, pool_size=2) as some:
        await some[0].send(QUEUE, [Draft(f"m{n}", b"") for n in range(100)])
        async with asyncio.timeout(30):
            await asyncio.gather(*map(work, some))
    times.sort()

    assert all(later - at >= 0.5 for at, later in zip(times, times[20:], strict=False))
    assert times[-1] - times[0] < 3.5


async def test_two_that_end_at_once_do_not_both_think_they_were_not_the_last(url: str) -> None:
    async with brokers(url, 3, pool_size=2) as (one, two, three):
        for turn in range(100):
            parent, kin = f"p{turn}", [f"a{turn}", f"b{turn}"]
            await one.send(
                QUEUE,
                [
                    Draft(parent, b"", 3600, awaits=2),
                    *(Draft(id, b"", reports_to=parent) for id in kin),
                ],
            )
            first, second = await lease(one)
            await asyncio.gather(settle(two, [first]), settle(three, [second], Archive()))
            found = await lease(one)
            assert [parent] == ids(found)
            assert kin == [heard.id for heard in await one.reports(QUEUE, parent)]
            await settle(one, found)
            assert [] == await one.reports(QUEUE, parent)
