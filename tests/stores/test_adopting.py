"""What one store shows, every other takes in, and shows it the same."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

import bee_core as bee
from bee_core.adoption import LARGEST, MOST, batches
from bee_core.broker import Store
from bee_core.errors import BrokerFull
from bee_core.message import Counters, Draft, Note, Receipt, Report, Settlement, Update
from bee_core.stored import HISTORY, State, Stored
from bee_memory import MemoryBroker
from tests.worker.support import new_store

QUEUE = "mail"
STORES = ("memory", "valkey", "pg")


def store(kind: str, request: pytest.FixtureRequest) -> Store:
    return bee.connect(new_store(request, kind))


async def fill(broker: Store) -> None:
    """Messages with a past: repeated, remarked on, updated, archived twice, cancelled, awaiting."""
    await broker.send(QUEUE, [Draft("worn", b"\0\xff", key="k", headers={"h": "🐝"}, priority=3)])
    for n in range(HISTORY + 2):
        [held] = await broker.lease(QUEUE, limit=1, duration=60, holder=f"w{n}")
        said = {"worn": f"{n} of 12\n"}
        await broker.extend(QUEUE, [held.receipt], duration=60, progress=said, remarks=said)
        note = Note("failed", "Traceback\n\0")
        end = Settlement(
            held.receipt, bee.Reschedule(), note, Counters(errors=1), summary=f"no {n}"
        )
        await broker.settle(QUEUE, [end])
    for body in (b"first", b"second"):
        await broker.send(QUEUE, [Draft("twice", body, priority=9)])
        [held] = await broker.lease(QUEUE, limit=1, duration=60, holder="w")
        await broker.settle(QUEUE, [Settlement(held.receipt, bee.Archive(), Note("failed"))])
    await broker.send(QUEUE, [Draft("parent", b"", delay=1000.0, awaits=3)])
    children = [Draft(f"child{n}", b"", priority=9 - n, reports_to="parent") for n in range(3)]
    await broker.send(QUEUE, children)
    [held] = await broker.lease(QUEUE, limit=1, duration=60, holder="w")
    ended = Settlement(held.receipt, bee.Delete(), Note("succeeded"), result=b"\0r")
    await broker.settle(QUEUE, [ended])
    await broker.send(QUEUE, [Draft("late", b"", delay=1234.567891)])
    await broker.send(QUEUE, [Draft("late", b"x", if_taken=Update(payload=True, run_at="never"))])
    await broker.cancel(QUEUE, ["child1"], to=bee.Archive())


async def all_of(broker: Store) -> list[Stored]:
    found: list[Stored] = []
    for state in (State.READY, State.DELAYED, State.ARCHIVED):
        found += (await broker.scan(QUEUE, state, limit=1000)).items
    return found


def bare(found: list[Stored]) -> list[Stored]:
    """Messages without what may differ: their number, and their times."""
    return [
        msgspec.structs.replace(
            one,
            incarnation=0,
            headers=dict(one.headers),
            sent_at=0.0,
            due_at=0.0,
            archived_at=None,
            history=tuple(
                msgspec.structs.replace(episode, leased_at=0.0, ended_at=0.0, due_at=None)
                for episode in one.history
            ),
        )
        for one in found
    ]


def times(found: list[Stored]) -> list[float]:
    return [
        time or 0.0
        for one in found
        for time in (
            *(one.sent_at, one.due_at, one.archived_at),
            *(time for e in one.history for time in (e.leased_at, e.ended_at, e.due_at)),
        )
    ]


@pytest.mark.parametrize("source", STORES)
@pytest.mark.parametrize("target", STORES)
async def test_a_queue_goes_from_any_store_to_any(
    source: str, target: str, request: pytest.FixtureRequest
) -> None:
    if source == target != "memory":
        pytest.skip("that is for the conformance suite")
    async with store(source, request) as old, store(target, request) as new:
        await fill(old)
        before = await all_of(old)
        told = {"parent": await old.reports(QUEUE, "parent")}
        token = (await old.stats(QUEUE)).token

        assert [] == await new.adopt(QUEUE, before, reports=told, beyond=token)
        assert [] == await old.expel(QUEUE, before)
        after = await all_of(new)

        assert bare(before) == bare(after)
        if source == "memory":  # there, times are finer than a microsecond
            assert times(before) == pytest.approx(times(after), rel=0, abs=1.5e-6)
        else:
            assert times(before) == times(after)
        assert told["parent"] == await new.reports(QUEUE, "parent")
        assert 0 == (await old.stats(QUEUE)).live
        [held] = await new.lease(QUEUE, limit=1, duration=60, holder="w")
        assert token < held.receipt.token
        assert ("child2", "parent") == (held.receipt.id, held.reports_to)
        await new.settle(QUEUE, [Settlement(held.receipt, bee.Delete(), Note("succeeded"))])
        assert State.READY is (await of(new, "parent")).state


async def of(broker: Store, id: str) -> Stored:
    found = await broker.get(QUEUE, id)
    assert found is not None
    return found


async def test_a_queue_in_memory_that_is_full_adopts_nothing() -> None:
    source, target = MemoryBroker(), MemoryBroker(max_length=2)
    await source.send(QUEUE, [Draft(id, b"") for id in "abc"])
    waiting = (await source.scan(QUEUE, State.READY)).items

    with pytest.raises(BrokerFull, match="max_length=2"):
        await target.adopt(QUEUE, waiting, beyond=99)
    assert (0, 0) == ((await target.stats(QUEUE)).live, (await target.stats(QUEUE)).token)

    assert [] == await target.adopt(QUEUE, waiting[:2])
    assert waiting[:2] == await target.adopt(QUEUE, waiting[:2])


async def test_a_batch_is_neither_long_nor_large() -> None:
    source = MemoryBroker()
    await source.send(QUEUE, [Draft(f"{n}", b"") for n in range(2 * MOST + 1)])
    await source.send(QUEUE, [Draft(f"large{n}", b"x" * (LARGEST // 2)) for n in range(3)])
    await source.send(QUEUE, [Draft("huge", b"x" * (LARGEST + 1))])
    waiting = (await source.scan(QUEUE, State.READY, limit=9999)).items
    other = {"elsewhere": [Report("x", Note("failed"), b"x" * LARGEST)]}

    found = batches(waiting, other)

    assert list(range(len(waiting))) == [n for batch in found for n in batch.positions]
    assert [1000, 1000, 3, 1, 1, 0] == [len(batch.positions) for batch in found]
    assert other == found[-1].reports


async def test_a_batch_has_no_more_reports_than_it_should() -> None:
    source = MemoryBroker()
    await source.send(QUEUE, [Draft(id, b"", awaits=1, delay=9.0) for id in ("p", "q", "r")])
    waiting = (await source.scan(QUEUE, State.DELAYED)).items
    many = [Report(f"{n}", Note("failed")) for n in range(2 * MOST + 1)]

    found = batches(waiting, {"p": many, "q": many[:1], "r": many[:MOST], "else": many[:MOST]})

    assert [[0], [], [1], [2], []] == [batch.positions for batch in found]
    assert many == [report for batch in found for report in batch.reports.get("p", ())]
    assert [1000, 1000, 2, 1000, 1000] == [sum(map(len, batch.reports.values())) for batch in found]


async def test_reports_come_with_the_message_that_reads_them() -> None:
    source = MemoryBroker()
    await source.send(QUEUE, [Draft("p", b"", awaits=1, delay=9.0), Draft("q", b"")])
    parent, other = await of(source, "p"), await of(source, "q")
    kept = msgspec.structs.replace(parent, state=State.ARCHIVED, archived_at=1.0)
    told = [Report("x", Note("failed"))]

    assert [{"p": told}] == [batch.reports for batch in batches([other, parent, kept], {"p": told})]
    assert [[1, 0]] == [batch.positions for batch in batches([kept, parent])]


@pytest.mark.parametrize("kind", ["valkey", "pg"])
async def test_who_is_cancelled_while_adopting_leaves_whole_messages(
    kind: str, request: pytest.FixtureRequest
) -> None:
    source = MemoryBroker()
    drafts = [Draft(f"{n}", b"x" * 2000, awaits=1, delay=500.0) for n in range(900)]
    await source.send(QUEUE, drafts)
    waiting = (await source.scan(QUEUE, State.DELAYED, limit=1000)).items
    told = {one.id: [Report("r", Note("failed"))] for one in waiting}
    async with store(kind, request) as broker:
        for delay in (0.0, 0.002, 0.02, 0.05, 0.1):
            task = asyncio.create_task(broker.adopt(QUEUE, waiting, reports=told))
            await asyncio.sleep(delay)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await broker.adopt(QUEUE, waiting, reports=told)

        stats = await broker.stats(QUEUE)
        assert (900, 900, 0) == (stats.created, stats.live, stats.leased)
        seen = (await broker.scan(QUEUE, State.READY, limit=1000)).items
        for one in seen:
            assert 1 == len(await broker.reports(QUEUE, one.id))
        task = asyncio.create_task(broker.expel(QUEUE, seen))
        await asyncio.sleep(0.002)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await broker.expel(QUEUE, seen)
        assert 0 == (await broker.stats(QUEUE)).live


async def test_a_lost_receipt_is_none_of_the_new_store() -> None:
    """Who held a message in the old store has nothing to say in the new one."""
    source, target = MemoryBroker(), MemoryBroker()
    await source.send(QUEUE, [Draft("a", b"")])
    [held] = await source.lease(QUEUE, limit=1, duration=60, holder="w")
    await source.settle(QUEUE, [Settlement(held.receipt, bee.Reschedule())])
    seen = await of(source, "a")
    await target.adopt(QUEUE, [seen], beyond=(await source.stats(QUEUE)).token)

    [again] = await target.lease(QUEUE, limit=1, duration=60, holder="x")

    old = Receipt("a", held.receipt.token)
    assert {old} == await target.settle(QUEUE, [Settlement(old, bee.Delete())])
    assert set() == await target.settle(QUEUE, [Settlement(again.receipt, bee.Delete())])
