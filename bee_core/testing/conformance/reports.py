"""Reports: a message tells another how it ended, in the same step as it ends, once."""

from __future__ import annotations

from bee_core.disposition import Archive, Delete, Disposition, Reschedule, Terminal
from bee_core.message import Note, Report, Sent, Settlement, Update
from bee_core.stored import State
from bee_core.testing.conformance.harness import Conformance, Harness
from bee_core.testing.conformance.steps import (
    LONG,
    Counts,
    counts,
    draft,
    end,
    ids,
    lapse_one,
    lease,
    lease_one,
    look,
    send,
)

EVERY_END: list[Terminal] = [Delete(), Archive()]
SUCCEEDED = Note("succeeded")


class Reporting(Conformance):
    """What is reported, and to whom."""

    async def test_a_message_reports_how_it_ended(self) -> None:
        for way in EVERY_END:
            async with self.harness() as h:
                note = Note("failed", 'ValueError: "bad"\r\n\x00 日本 🐝')
                await family(h, "a")

                await end(h, await lease_one(h), way, note=note, result=bytes(range(256)))

                assert [Report("a", note, bytes(range(256)))] == await heard(h)

    async def test_a_message_and_its_lease_show_whom_it_reports_to(self) -> None:
        async with self.harness() as h:
            await family(h, "a", awaits=7)

            held = await lease_one(h)
            a, p = await look(h, "a"), await look(h, "p")

            assert ("p", "p", 0) == (held.reports_to, a.reports_to, a.awaits)
            assert (None, 7) == (p.reports_to, p.awaits)

    async def test_a_large_result_is_reported(self) -> None:
        async with self.harness() as h:
            await family(h, "a")
            result = b"\x00\xff" * 500_000

            await end(h, await lease_one(h), note=SUCCEEDED, result=result)

            assert [Report("a", SUCCEEDED, result)] == await heard(h)

    async def test_an_end_without_a_note_was_ruled(self) -> None:
        async with self.harness() as h:
            await family(h, "a")

            await end(h, await lease_one(h))

            assert [Report("a", Note("ruled"))] == await heard(h)

    async def test_an_end_without_a_note_reports_the_last_one(self) -> None:
        async with self.harness() as h:
            await family(h, "a")
            await end(h, await lease_one(h), Reschedule(), note=Note("failed", "1"))

            await end(h, await lease_one(h))

            assert [Report("a", Note("failed", "1"))] == await heard(h)

    async def test_a_message_that_is_cancelled_reports_so(self) -> None:
        for to in EVERY_END:
            for held in (False, True):
                async with self.harness() as h:
                    await family(h, "a")
                    if held:
                        await lease_one(h)

                    await h.broker.cancel(h.queue, ["a"], to=to)

                    assert [Report("a", Note("cancelled"))] == await heard(h)

    async def test_a_message_that_is_repeated_does_not_report(self) -> None:
        ways: list[Disposition] = [
            Reschedule(),
            Reschedule(delay=0.001),
            Reschedule(front=True),
        ]
        for way in ways:
            async with self.harness() as h:
                await family(h, "a", awaits=1)

                await end(h, await lease_one(h), way, note=SUCCEEDED, result=b"1", keep=LONG)

                assert [] == await heard(h)
                assert State.DELAYED is (await look(h, "p")).state

    async def test_a_lost_lease_reports_nothing(self) -> None:
        async with self.harness() as h:
            await family(h, "a", awaits=1)
            stale = await lapse_one(h)
            held = await lease_one(h)

            for way in EVERY_END:
                assert not await end(h, stale, way, note=Note("failed"))
            assert [] == await heard(h)

            assert await end(h, held, note=SUCCEEDED)
            assert not await end(h, held, note=Note("failed"))
            assert [Report("a", SUCCEEDED)] == await heard(h)

    async def test_a_message_that_runs_again_does_not_report_again(self) -> None:
        async with self.harness() as h:
            await family(h, "a", "b", awaits=2)
            a, _ = await lease(h)
            await end(h, a, Archive(), note=Note("failed"), result=b"first")
            await h.broker.restore(h.queue, ["a"])

            await end(h, await lease_one(h), note=SUCCEEDED, result=b"second")

            assert [Report("a", Note("failed"), b"first")] == await heard(h)
            assert State.DELAYED is (await look(h, "p")).state

    async def test_a_restored_message_reports_to_whom_it_did(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", reports_to="p"))
            await end(h, await lease_one(h), Archive())
            await send(h, draft(h, "p", after=LONG, awaits=1))

            await h.broker.restore(h.queue, ["a"])
            held = await lease_one(h)
            await end(h, held)

            assert "p" == held.reports_to
            assert ["a"] == ids(await heard(h))

    async def test_a_message_reports_to_nobody_if_there_is_none(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", reports_to="p"))

            assert await end(h, await lease_one(h))
            await send(h, draft(h, "p", after=LONG, awaits=1))

            assert [] == await heard(h)
            assert Counts(delayed=1) == await counts(h)

    async def test_nothing_is_reported_to_the_archive(self) -> None:
        async with self.harness() as h:
            await family(h, "a")
            held = await lease_one(h)
            await h.broker.cancel(h.queue, ["p"], to=Archive())

            await end(h, held)

            assert [] == await heard(h)

    async def test_nothing_is_reported_to_one_that_awaits_nothing(self) -> None:
        async with self.harness() as h:
            await family(h, "a", awaits=0)

            assert await end(h, await lease_one(h))

            assert [] == await heard(h)
            assert [Sent.CREATED] == await send(h, draft(h, "a", reports_to="p"))

    async def test_reports_in_one_queue_leave_another_alone(self) -> None:
        async with self.harness() as h:
            await family(h, "a")
            parent = draft(h, "p", after=LONG, awaits=1)
            await h.broker.send(h.other_queue, [parent])

            await end(h, await lease_one(h))

            assert [] == list(await h.broker.reports(h.other_queue, "p"))
            assert Counts(delayed=1) == await counts(h, h.other_queue)

    async def test_what_is_purged_reports_to_nobody(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "p", awaits=2))
            await lease_one(h)
            await send(h, *(draft(h, id, reports_to="p") for id in "abc"))
            held = await lease_one(h)
            await send(h, draft(h, "a", reports_to="p", if_taken=Update()))

            assert 3 == await h.broker.purge(h.queue)

            assert [] == await heard(h)
            await end(h, held)
            assert ["a"] == ids(await heard(h))

    async def test_a_message_reports_before_what_follows_it_is_sent(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", reports_to="p"))

            await end(h, await lease_one(h), then=[draft(h, "p", after=LONG, awaits=1)])

            assert [] == await heard(h)
            assert Counts(delayed=1) == await counts(h)

    async def test_those_that_are_cancelled_together_leave_no_report_behind(self) -> None:
        for wanted in (["p", "a"], ["a", "p"]):
            async with self.harness() as h:
                await family(h, "a")

                assert set() == await h.broker.cancel(h.queue, wanted, to=Delete())

                assert [] == await heard(h)
                assert [Sent.CREATED] * 2 == await family(h, "a")

    async def test_one_that_is_held_and_spared_does_not_report(self) -> None:
        async with self.harness() as h:
            await family(h, "a")
            await lease_one(h)

            missing = await h.broker.cancel(h.queue, ["a"], to=Delete(), running=False)

            assert ({"a"}, []) == (missing, await heard(h))

    async def test_a_message_shows_whom_it_reports_to_wherever_it_is(self) -> None:
        async with self.harness() as h:
            await family(h, "a", awaits=3)
            held = await lease_one(h)
            await send(h, draft(h, "a", awaits=2, reports_to="q", if_taken=Update()))
            (blocked,) = (await h.broker.scan(h.queue, State.BLOCKED)).items
            await h.broker.cancel(h.queue, ["a"], to=Delete(), running=False)
            await end(h, held, Archive())
            await h.broker.cancel(h.queue, ["p"], to=Archive())

            assert ("q", 2) == (blocked.reports_to, blocked.awaits)
            assert ("p", 0) == ((a := await look(h, "a")).reports_to, a.awaits)
            assert (None, 3) == ((p := await look(h, "p")).reports_to, p.awaits)

    async def test_an_update_does_not_change_whom_a_message_reports_to(self) -> None:
        async with self.harness() as h:
            await family(h, "a")
            await send(h, draft(h, "q", after=LONG, awaits=1))

            change = draft(h, "a", b"new", reports_to="q", if_taken=Update())
            assert [Sent.UPDATED] == await send(h, change)
            await end(h, await lease_one(h))

            assert (["a"], []) == (ids(await heard(h)), await heard(h, of="q"))

    async def test_a_successor_reports_to_whom_it_says(self) -> None:
        async with self.harness() as h:
            await family(h, "a", awaits=9)
            await send(h, draft(h, "q", after=LONG, awaits=5))
            held = await lease_one(h)
            await send(h, draft(h, "a", reports_to="q", if_taken=Update()))

            await end(h, held)
            before = await heard(h, of="q")
            await end(h, await lease_one(h), note=SUCCEEDED)

            assert (["a"], []) == (ids(await heard(h)), before)
            assert [Report("a", SUCCEEDED)] == await heard(h, of="q")

    async def test_a_successor_that_is_cancelled_does_not_report(self) -> None:
        for to in EVERY_END:
            async with self.harness() as h:
                await family(h, "a")
                held = await lease_one(h)
                await send(h, draft(h, "a", reports_to="p", if_taken=Update()))

                await h.broker.cancel(h.queue, ["a"], to=to, running=False)

                assert [] == await heard(h)
                await end(h, held, note=SUCCEEDED)
                assert [Report("a", SUCCEEDED)] == await heard(h)

    async def test_reports_of_one_call_are_all_there(self) -> None:
        async with self.harness() as h:
            await family(h, "c", "b", "a", awaits=9)
            leases = await lease(h)
            stale = leases[1]
            await end(h, stale, Reschedule(delay=60))

            ends = [Settlement(one.receipt, Delete(), SUCCEEDED) for one in leases]
            assert {stale.receipt} == await h.broker.settle(h.queue, ends)

            assert ["a", "c"] == ids(await heard(h))


async def family(h: Harness, *children: str, awaits: int = 1, parent: str = "p") -> list[Sent]:
    """Send a message that waits for a long time, and messages that report to it."""
    kin = [draft(h, id, reports_to=parent) for id in children]
    return await send(h, draft(h, parent, after=LONG, awaits=awaits), *kin)


async def heard(h: Harness, size: int = 1000, *, of: str = "p") -> list[Report]:
    """What was reported to a message, read page by page."""
    found: list[Report] = []
    for _ in range(100):
        page = await h.broker.reports(h.queue, of, after=found[-1].id if found else "", limit=size)
        assert len(page) <= size
        if not page:
            return found
        found += page
    raise AssertionError("the pages have no end")
