"""A message that awaits reports: due when the last of them is there, and not before, and once."""

from __future__ import annotations

import asyncio

from bee_core.disposition import Archive, Delete, Reschedule
from bee_core.message import Note, Report, Sent, Settlement, Update
from bee_core.stored import State
from bee_core.testing.conformance.harness import Conformance
from bee_core.testing.conformance.interrupt import MOMENTS, interrupt
from bee_core.testing.conformance.reports import EVERY_END, family, heard
from bee_core.testing.conformance.steps import (
    LONG,
    SHORT,
    Counts,
    clones,
    counts,
    draft,
    end,
    ids,
    lease,
    lease_one,
    look,
    running,
    send,
    soon,
)
from bee_core.testing.conformance.together import CLIENTS
from bee_core.testing.conformance.waiting import fetch


class Awaiting(Conformance):
    """When it is due."""

    async def test_it_is_due_when_the_last_report_is_there_and_not_before(self) -> None:
        for way in EVERY_END:
            async with self.harness() as h:
                await family(h, "c", "b", "a", awaits=3)
                seen = []

                for held in await lease(h):
                    seen.append(ids(await lease(h)))
                    await end(h, held, way)
                seen.append(ids(await lease(h)))

                assert [[], [], [], ["p"]] == seen
                assert [] == await lease(h)

    async def test_it_is_due_at_the_latest_when_its_delay_is_over(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "p", after=SHORT, awaits=2), draft(h, "a", reports_to="p"))
            await end(h, await lease_one(h))
            await h.advance(2 * SHORT)

            assert ["p"] == ids(await lease(h))
            assert ["a"] == ids(await heard(h))

    async def test_it_stands_behind_those_that_were_due_before_it(self) -> None:
        async with self.harness() as h:
            await family(h, "c", awaits=1)
            held = await lease_one(h)
            await send(h, "b")
            await end(h, held)
            await send(h, "a")

            assert ["b", "p", "a"] == ids(await lease(h))

    async def test_one_that_is_due_already_keeps_its_place(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "c", reports_to="p"), draft(h, "p", awaits=1), "a")

            await end(h, await lease_one(h))

            assert ["p", "a"] == ids(await lease(h))

    async def test_those_that_are_cancelled_count(self) -> None:
        for to in EVERY_END:
            async with self.harness() as h:
                await family(h, "b", "a", awaits=2)
                await lease_one(h)

                await h.broker.cancel(h.queue, ["a", "b"], to=to)

                assert ["p"] == ids(await lease(h))

    async def test_one_that_runs_twice_counts_once(self) -> None:
        async with self.harness() as h:
            await family(h, "b", "a", awaits=2)
            b, a = await lease(h)
            for _ in range(3):
                await end(h, b, Archive())
                await h.broker.restore(h.queue, ["b"])
                b = await lease_one(h)

            assert State.DELAYED is (await look(h, "p")).state
            await end(h, a)
            assert ["p"] == ids(await lease(h))

    async def test_those_that_end_in_one_call_count_each(self) -> None:
        async with self.harness() as h:
            await family(h, "c", "b", "a", awaits=3)
            ends = [Settlement(one.receipt, Delete()) for one in await lease(h)]

            await h.broker.settle(h.queue, ends)

            assert ["p"] == ids(await lease(h))
            assert ["a", "b", "c"] == ids(await heard(h))

    async def test_of_those_that_end_at_the_same_time_one_is_the_last(self) -> None:
        async with self.harness() as h, clones(h, CLIENTS) as brokers:
            await family(h, *(f"{n}" for n in range(CLIENTS)), awaits=CLIENTS)
            leases = await lease(h)
            ends = [[Settlement(one.receipt, Delete())] for one in leases]

            lost = await asyncio.gather(
                *(b.settle(h.queue, some) for b, some in zip(brokers, ends, strict=True))
            )

            assert [set()] * CLIENTS == lost
            assert ["p"] == ids(await lease(h))
            assert [] == await lease(h)
            assert CLIENTS == len(await heard(h))

    async def test_more_reports_than_it_awaits_do_not_make_it_due_again(self) -> None:
        async with self.harness() as h:
            await family(h, "c", "b", "a", awaits=1)
            c, b, a = await lease(h)
            await end(h, c)
            held = await lease_one(h)
            await end(h, b)
            await end(h, held, Reschedule(delay=LONG * h.unit))
            await end(h, a)

            assert Counts(delayed=1) == await counts(h)
            assert ["a", "b", "c"] == ids(await heard(h))

    async def test_reports_do_not_disturb_who_holds_it(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "p", awaits=2))
            held = await lease_one(h)
            await send(h, draft(h, "b", reports_to="p"), draft(h, "a", reports_to="p"))

            for one in await lease(h):
                await end(h, one)

            assert [] == await lease(h)
            assert Counts(leased=1) == await counts(h)
            assert ["a", "b"] == ids(await heard(h))
            assert await end(h, held)

    async def test_one_that_is_repeated_goes_on_waiting_for_the_rest(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "p", awaits=2))
            await end(h, await lease_one(h), Reschedule(delay=LONG * h.unit))
            await send(h, draft(h, "b", reports_to="p"), draft(h, "a", reports_to="p"))
            seen = []

            for one in await lease(h):
                await end(h, one)
                seen.append(ids(await lease(h)))

            assert [[], ["p"]] == seen

    async def test_one_that_awaits_can_itself_be_awaited(self) -> None:
        async with self.harness() as h:
            await send(
                h,
                draft(h, "g", after=LONG, awaits=1),
                draft(h, "p", after=LONG, awaits=1, reports_to="g"),
                draft(h, "a", reports_to="p"),
            )
            seen = []

            while leases := await lease(h):
                (only,) = leases
                seen.append(only.receipt.id)
                await end(h, only, Archive(), note=Note("succeeded"), result=b"of " + only.body)

            assert ["a", "p", "g"] == seen
            assert [Report("p", Note("succeeded"), b"of body")] == await heard(h, of="g")

    async def test_an_update_does_not_change_how_many_it_awaits(self) -> None:
        async with self.harness() as h:
            await family(h, "b", "a", awaits=2)
            b, a = await lease(h)
            await end(h, b)

            change = draft(h, "p", b"new", after=2 * LONG, awaits=1, if_taken=Update())
            assert [Sent.UPDATED] == await send(h, change)

            assert (State.DELAYED, 2) == ((s := await look(h, "p")).state, s.awaits)
            await end(h, a)
            assert [b"new"] == [one.body for one in await lease(h)]

    async def test_an_update_may_make_it_due(self) -> None:
        async with self.harness() as h:
            await family(h, "a", awaits=1)
            (a,) = await lease(h)

            await send(h, draft(h, "p", b"new", if_taken=Update()))
            (held,) = await lease(h)
            await end(h, a)

            assert b"new" == held.body
            assert [] == await lease(h)
            assert await end(h, held)

    async def test_when_it_is_cancelled_nothing_comes_of_the_reports(self) -> None:
        for to in EVERY_END:
            async with self.harness() as h:
                await family(h, "a", awaits=1)
                (a,) = await lease(h)

                assert set() == await h.broker.cancel(h.queue, ["p"], to=to)
                assert await end(h, a)

                assert [] == await lease(h)
                assert [] == await heard(h)

    async def test_it_waits_for_its_key_too(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "p", after=LONG, awaits=1, key="k"))
            await send(h, draft(h, "b", key="k", reports_to="p"), draft(h, "a", key="k"))
            (b,) = await lease(h)

            await end(h, b)
            (a,) = await lease(h)
            await end(h, a)

            assert ("b", "a") == (b.receipt.id, a.receipt.id)
            assert ["p"] == ids(await lease(h))

    async def test_a_successor_awaits_as_many_as_it_says(self) -> None:
        async with self.harness() as h:
            await family(h, "c", awaits=1)
            await end(h, await lease_one(h))
            held = await lease_one(h)
            change = draft(h, "p", b"new", after=LONG, awaits=2, if_taken=Update())
            assert [Sent.BLOCKED] == await send(h, change)
            assert ["c"] == ids(await heard(h))

            await end(h, held, Archive())
            assert [] == await heard(h)
            await send(h, draft(h, "b", reports_to="p"), draft(h, "a", reports_to="p"))
            b, a = await lease(h)
            await end(h, b)
            before = await counts(h)
            await end(h, a)

            assert Counts(delayed=1, leased=1) == before
            assert [b"new"] == [one.body for one in await lease(h)]

    async def test_when_the_last_report_is_there_it_is_heard(self) -> None:
        for cancelled in (False, True):
            async with self.harness() as h:
                await family(h, "a", awaits=1)
                (held,) = await lease(h)

                async with running(fetch(h)) as worker:
                    await h.advance(1)
                    if cancelled:
                        await h.broker.cancel(h.queue, ["a"], to=Delete())
                    else:
                        await end(h, held)

                    assert "p" == await soon(h, worker, "the last report should wake who waits")

    async def test_an_end_that_is_cut_short_is_reported_or_did_not_happen(self) -> None:
        async with self.harness() as h:
            await family(h, *(f"{n:02}" for n in MOMENTS), awaits=len(MOMENTS))
            for moment, held in enumerate(await lease(h)):
                settlement = Settlement(held.receipt, Delete())

                await interrupt(h, h.broker.settle(h.queue, [settlement]), moment)

                gone = await h.broker.get(h.queue, held.receipt.id) is None
                assert gone == (held.receipt.id in ids(await heard(h)))
                await h.broker.settle(h.queue, [settlement])

            assert ["p"] == ids(await lease(h))
            assert len(MOMENTS) == len(await heard(h))
