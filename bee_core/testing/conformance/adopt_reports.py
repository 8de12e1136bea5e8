"""What was reported to a message comes with it to another store, and goes on there."""

from __future__ import annotations

from bee_core.disposition import Archive, Delete, Reschedule
from bee_core.message import Counters, Note, Report
from bee_core.stored import State
from bee_core.testing.conformance.foreign import (
    adopt,
    archived,
    delayed,
    everything,
    expel,
    foreign,
)
from bee_core.testing.conformance.harness import Conformance
from bee_core.testing.conformance.reports import heard
from bee_core.testing.conformance.steps import (
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
from bee_core.testing.conformance.waiting import fetch

DONE = Note("succeeded")
ONE = Report("1", DONE, b"\x00\xff")
TWO = Report("2", Note("failed", "ValueError:\n\0 🐝"), b"")
THREE = Report("3", DONE, b"3")


class AdoptedReports(Conformance):
    """Reports that are adopted, and those that follow."""

    async def test_adopted_reports_can_be_read(self) -> None:
        for make in (delayed, foreign, archived):
            async with self.harness() as h:
                await adopt(h, await make(h, "p", awaits=9), reports={"p": [TWO, ONE]})

                assert [ONE, TWO] == await heard(h)
                assert [TWO] == list(await h.broker.reports(h.queue, "p", after="1"))

    async def test_an_adopted_message_is_due_when_the_rest_has_reported(self) -> None:
        async with self.harness() as h:
            parent = await delayed(h, "p", awaits=3)
            children = [await foreign(h, id, reports_to="p") for id in ("3", "4")]
            await adopt(h, parent, *children, reports={"p": [ONE]})

            first, second = await lease(h)
            await end(h, first, note=DONE)
            assert State.DELAYED is (await look(h, "p")).state
            await end(h, second, note=DONE)

            assert ["p"] == ids(await lease(h))
            assert ["1", "3", "4"] == ids(await heard(h))

    async def test_who_waits_hears_that_the_last_report_was_adopted(self) -> None:
        async with self.harness() as h:
            await adopt(h, await delayed(h, "p", awaits=2), reports={"p": [ONE]})
            async with running(fetch(h)) as worker:
                await h.advance(1)
                assert not worker.done()

                await adopt(h, reports={"p": [TWO]})

                assert "p" == await soon(h, worker, "the last report makes it due")

    async def test_a_message_and_all_it_awaits_may_come_together(self) -> None:
        async with self.harness() as h:
            await adopt(h, await delayed(h, "p", awaits=2), reports={"p": [ONE, TWO]})

            assert ["p"] == ids(await lease(h))

    async def test_of_each_reporter_the_first_report_counts(self) -> None:
        async with self.harness() as h:
            second = Report("1", DONE, b"second")
            await adopt(h, await delayed(h, "p", awaits=3), reports={"p": [ONE, second]})
            await adopt(h, reports={"p": [second, TWO]})

            assert [ONE, TWO] == await heard(h)
            assert State.DELAYED is (await look(h, "p")).state
            await adopt(h, reports={"p": [ONE, TWO, THREE]})
            assert ["p"] == ids(await lease(h))

    async def test_adopting_with_reports_again_changes_nothing(self) -> None:
        async with self.harness() as h:
            parent = await delayed(h, "p", awaits=3)
            await adopt(h, parent, reports={"p": [ONE, TWO]})

            assert [parent] == await adopt(h, parent, reports={"p": [ONE, TWO]})

            assert [ONE, TWO] == await heard(h)
            assert State.DELAYED is (await look(h, "p")).state

    async def test_an_adopted_message_begins_with_no_other_reports(self) -> None:
        async with self.harness() as h:
            await adopt(h, await archived(h, "p", awaits=2), reports={"p": [ONE]})

            await adopt(h, await delayed(h, "p", awaits=2), reports={"p": [TWO]})

            assert [TWO] == await heard(h)
            assert [] == await lease(h)

    async def test_reports_reach_the_live_and_the_archived_of_one_id(self) -> None:
        async with self.harness() as h:
            live, kept = await foreign(h, "p"), await archived(h, "p", awaits=1)

            await adopt(h, kept, live, reports={"p": [ONE]})

            assert [ONE] == await heard(h)

    async def test_reports_to_nobody_are_not_kept(self) -> None:
        async with self.harness() as h:
            await adopt(h, await foreign(h, "q"), reports={"p": [ONE], "q": [TWO]})

            assert ([], []) == (await heard(h), await heard(h, of="q"))
            await adopt(h, await archived(h, "p", awaits=1))
            assert [] == await heard(h)

    async def test_one_that_was_delivered_before_waits_for_its_time(self) -> None:
        async with self.harness() as h:
            parent = await delayed(h, "p", awaits=1, counters=Counters(deliveries=1))

            await adopt(h, parent, reports={"p": [ONE]})

            assert State.DELAYED is (await look(h, "p")).state
            assert [ONE] == await heard(h)

    async def test_reports_to_one_that_is_held_can_be_read(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "p", awaits=2))
            held = await lease_one(h)

            await adopt(h, reports={"p": [ONE, TWO]})

            assert [ONE, TWO] == await heard(h)
            assert await end(h, held, Reschedule(delay=60))
            assert State.DELAYED is (await look(h, "p")).state

    async def test_an_adopted_message_reports_how_it_ends(self) -> None:
        for way in (Delete(), Archive()):
            async with self.harness() as h:
                await send(h, draft(h, "p", awaits=9, after=1000))
                await adopt(h, await foreign(h, "c", reports_to="p"))

                await end(h, await lease_one(h), way, note=DONE, result=b"x")

                assert [Report("c", DONE, b"x")] == await heard(h)

    async def test_one_that_has_reported_already_is_adopted_all_the_same(self) -> None:
        async with self.harness() as h:
            await adopt(h, await delayed(h, "p", awaits=9), reports={"p": [ONE]})

            assert [] == await adopt(h, await foreign(h, "1", reports_to="p"))

            assert ["1"] == ids(await lease(h))

    async def test_adopted_reports_go_with_the_last_that_can_read_them(self) -> None:
        async with self.harness() as h:
            live, kept = await delayed(h, "p", awaits=9), await archived(h, "p", awaits=9)
            await adopt(h, live, kept, reports={"p": [ONE]})

            await h.broker.purge(h.queue)
            assert [ONE] == await heard(h)
            await h.broker.prune(h.queue)
            assert [] == await heard(h)

    async def test_a_message_is_expelled_with_what_was_reported_to_it(self) -> None:
        for make in (delayed, archived):
            async with self.harness() as h:
                await adopt(h, await make(h, "p", awaits=9), reports={"p": [ONE]})

                assert [] == await expel(h, await look(h, "p"))

                assert [] == await heard(h)

    async def test_what_another_of_the_id_can_read_is_not_expelled(self) -> None:
        async with self.harness() as h:
            live, kept = await delayed(h, "p", awaits=9), await archived(h, "p", awaits=9)
            for state in (State.DELAYED, State.ARCHIVED):
                await h.broker.drop(h.queue)
                await adopt(h, live, kept, reports={"p": [ONE]})

                assert [] == await expel(h, *await everything(h, state))

                assert [ONE] == await heard(h)

    async def test_what_is_expelled_reports_to_nobody(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "p", awaits=1, after=1000), draft(h, "c", reports_to="p"))

            assert [] == await expel(h, await look(h, "c"))

            assert [] == await heard(h)
            assert State.DELAYED is (await look(h, "p")).state

    async def test_many_reports_are_adopted_at_once(self) -> None:
        async with self.harness() as h:
            told = [Report(f"{n:05}", DONE, b"x" * 20) for n in range(2500)]
            parent = await delayed(h, "p", awaits=2501)

            await adopt(h, parent, reports={"p": told})
            assert told == await heard(h)
            assert State.DELAYED is (await look(h, "p")).state

            await adopt(h, reports={"p": [ONE]})
            assert ["p"] == ids(await lease(h))
