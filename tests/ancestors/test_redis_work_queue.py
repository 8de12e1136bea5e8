"""The faults of redis-work-queue."""

from __future__ import annotations

import asyncio
import logging

import pytest

import bee_core as bee
from bee_core.testing.conformance import Harness
from bee_core.testing.conformance.steps import (
    SHORT,
    clones,
    draft,
    end,
    extend,
    ids,
    lapse,
    lapse_one,
    lease,
    lease_one,
    running,
    send,
    soon,
)
from tests.ancestors.support import drain, drained_by_many, once
from tests.worker.support import LEASE, Work, at_work, begin
from tests.worker.test_strategies import fail, hang


async def test_RW_B01_upkeep_in_a_tight_loop_gives_nothing_out_twice(h: Harness) -> None:
    async def upkeep() -> None:
        await h.broker.prune(h.queue, keep=0)
        await h.broker.stats(h.queue)
        await h.broker.restore(h.queue, ["1"])

    assert once(300) == await drained_by_many(h, 300, meanwhile=upkeep)


async def test_RW_B02_a_lease_that_ran_out_needs_no_deep_clean(h: Harness) -> None:
    await send(h, "a", "b")
    await lapse(h)

    assert ["a", "b"] == ids(await lease(h))


async def test_RW_B03_a_sender_that_dies_anywhere_leaves_all_or_nothing(h: Harness) -> None:
    async with clones(h, 1) as (other,):
        for turns in range(30):
            id = str(turns)
            sending = asyncio.create_task(other.send(h.queue, [draft(h, id)]))
            for _ in range(turns):
                await asyncio.sleep(0)
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

            (sent,) = await send(h, id)  # kept if it was stored, and created if not
            assert sent in (bee.Sent.CREATED, bee.Sent.KEPT)
            assert [id] == await drain(h)


async def test_RW_B04_a_late_end_does_not_destroy_the_next_message_of_that_id(h: Harness) -> None:
    await send(h, "a")
    late = await lapse_one(h)
    await end(h, await lease_one(h))
    await send(h, draft(h, "a", b"new"))

    assert not await end(h, late)
    assert b"new" == (await lease_one(h)).body


async def test_RW_B05_who_waits_gets_what_ran_out_though_nobody_cleans(h: Harness) -> None:
    await send(h, "a")
    await lease(h, units=SHORT)

    async def come_by() -> str:
        while not (leases := await lease(h)):
            await h.broker.wait(h.queue, timeout=10 * SHORT * h.unit)
        return leases[0].receipt.id

    async with running(come_by()) as task:
        assert "a" == await soon(h, task, "who waits should get what ran out")


async def test_RW_B06_poison_does_not_go_round_for_ever() -> None:
    async with at_work(hang, policy=bee.Policy(on_stall=bee.Repeat(1))) as (bees, jobs):
        await jobs.send(Work(), id="a")
        for _ in range(4):
            await bees.clock.settle()
            await bees.crash()
            await begin(bees)
            await bees.advance(LEASE)

        assert ["a"] * 2 == bees.runs
        (archived,) = await bees.archived(jobs)
        assert archived.note is not None
        assert "stalled" == archived.note.reason


async def test_RW_B07_a_lease_can_be_renewed_until_somebody_took_it_over(h: Harness) -> None:
    await send(h, "a")
    (held,) = await lease(h, units=2 * SHORT)
    for _ in range(3):
        await h.advance(SHORT)
        assert await extend(h, held, 2 * SHORT)
        assert [] == await lease(h)

    await h.advance(4 * SHORT)
    await lease_one(h)
    assert not await extend(h, held)


async def test_RW_B08_what_is_given_back_is_there_at_once(h: Harness) -> None:
    await send(h, "a")
    await end(h, await lease_one(h), bee.Reschedule(front=True))

    assert ["a"] == ids(await lease(h))


async def test_RW_B09_what_is_gone_does_not_hide_what_is_good(h: Harness) -> None:
    await send(h, *(str(number) for number in range(10)), "good")
    held = await lapse(h, 5)
    await h.broker.cancel(h.queue, ["0", "6", "7"], to=bee.Delete())
    await h.broker.cancel(h.queue, ["5", "8", "9"], to=bee.Archive())
    for one in held[1:]:
        await end(h, one)

    assert ["good"] == ids(await lease(h, 1))


async def test_RW_B10_a_part_of_a_second_is_not_cut_to_none(h: Harness) -> None:
    async with running(h.broker.wait(h.queue, timeout=2 * h.unit)) as waiting:
        await soon(h, waiting, "a short wait should end")

    await send(h, "a")
    (held,) = await h.broker.lease(h.queue, limit=1, duration=2 * h.unit, holder="w")
    assert [] == await lease(h)
    await h.advance(4)
    assert ["a"] == ids(await lease(h))
    assert not await end(h, held)


async def test_RW_B11_counts_are_right_while_all_are_at_work(h: Harness) -> None:
    most = 0

    async def count() -> None:
        nonlocal most
        most = max(most, (await h.broker.stats(h.queue)).live)

    assert once(200) == await drained_by_many(h, 200, meanwhile=count)
    assert most <= 200
    assert 0 == (await h.broker.stats(h.queue)).live


async def test_RW_B12_queues_whose_names_begin_alike_are_apart(h: Harness) -> None:
    other = f"{h.queue}-item"
    await send(h, "a")
    await h.broker.send(other, [bee.Draft("a", b"")])
    await h.broker.drop(h.queue)

    assert 1 == (await h.broker.stats(other)).ready
    for name in (f"{h.queue}:item", f"{h.queue}*", f"{h.queue}[1]"):
        with pytest.raises(bee.InvalidName):
            await h.broker.stats(name)


async def test_RW_B13_as_many_are_ready_as_can_be_had(h: Harness) -> None:
    await send(h, *(str(number) for number in range(12)))
    late = await lapse(h, 8)
    taken = await lease(h, 3)
    for one in (*late[3:6], *taken[:2]):
        await end(h, one)

    ready = (await h.broker.stats(h.queue)).ready
    assert ready == len(await drain(h))


async def test_RW_B14_the_library_prints_nothing(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.CRITICAL):
        async with at_work(fail, policy=bee.Policy(on_error=bee.Archive())) as (bees, jobs):
            await jobs.send(Work())
            await bees.broker.send("jobs", [bee.Draft("bad", b"?")])
            bees.broker.fail("lease", bee.BrokerUnavailable("away"))
            await bees.advance(10)

    assert ("", "") == capfd.readouterr()
