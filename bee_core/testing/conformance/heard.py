"""`reports`: what has been reported can be read for as long as it may be needed, and counts."""

from __future__ import annotations

from bee_core.disposition import Archive, Delete, Reschedule
from bee_core.message import Reject, Report, Sent, Update
from bee_core.testing.conformance.harness import Conformance
from bee_core.testing.conformance.reports import EVERY_END, SUCCEEDED, family, heard
from bee_core.testing.conformance.steps import (
    LONG,
    Counts,
    counts,
    draft,
    end,
    ids,
    lease,
    lease_one,
    look,
    send,
    update,
)


class Heard(Conformance):
    """How reports are read, how long they stay, and what is not sent again because of them."""

    async def test_reports_are_listed_by_id_page_by_page(self) -> None:
        wanted = ["10", "9", "A", "Z", "_", "a", "aa", "a-b", "b", "é", "日本", "\uffee", "🐝"]
        wanted.sort()
        async with self.harness() as h:
            await family(h, *reversed(wanted), awaits=100)
            for held in await lease(h):
                await end(h, held)

            for size in (1, 3, 1000):
                assert wanted == ids(await heard(h, size))
            between = await h.broker.reports(h.queue, "p", after="a_", limit=2)
            assert ["aa", "b"] == ids(between)
            assert [] == list(await h.broker.reports(h.queue, "p", after=wanted[-1]))
            assert [] == list(await h.broker.reports(h.queue, "a"))
            assert [] == list(await h.broker.reports(h.queue, "nobody"))

    async def test_reports_can_be_read_by_one_that_is_repeated(self) -> None:
        for way in (Reschedule(), Reschedule(delay=60), Reschedule(front=True)):
            async with self.harness() as h:
                await family(h, "a", awaits=1)
                await end(h, await lease_one(h), note=SUCCEEDED, result=b"1")

                before = await heard(h)
                await end(h, await lease_one(h), way)

                assert [Report("a", SUCCEEDED, b"1")] == before == await heard(h)

    async def test_reports_can_be_read_by_one_that_is_restored(self) -> None:
        async with self.harness() as h:
            await family(h, "a", awaits=1)
            await end(h, await lease_one(h))
            await end(h, await lease_one(h), Archive())

            seen = [ids(await heard(h))]
            await h.broker.restore(h.queue, ["p"])
            seen.append(ids(await heard(h)))
            await h.broker.cancel(h.queue, ["p"], to=Archive())
            seen.append(ids(await heard(h)))

            assert [["a"]] * 3 == seen

    async def test_one_that_is_restored_still_hears_of_the_rest(self) -> None:
        async with self.harness() as h:
            await family(h, "a", "b", awaits=2)
            a, b = await lease(h)
            await end(h, a)
            await h.broker.cancel(h.queue, ["p"], to=Archive())

            await h.broker.restore(h.queue, ["p"])
            await end(h, b)

            assert 2 == (await look(h, "p")).awaits
            assert ["a", "b"] == ids(await heard(h))
            assert ["p"] == ids(await lease(h))

    async def test_reports_go_when_who_they_went_to_is_deleted(self) -> None:
        async with self.harness() as h:
            await family(h, "a", awaits=1)
            await end(h, await lease_one(h))

            await end(h, await lease_one(h))

            assert [] == await heard(h)
            assert [Sent.CREATED] == await send(h, draft(h, "a", reports_to="p"))

    async def test_reports_go_when_who_they_went_to_is_cancelled_away(self) -> None:
        async with self.harness() as h:
            await family(h, "a")
            await end(h, await lease_one(h))

            await h.broker.cancel(h.queue, ["p"], to=Delete())

            assert [] == await heard(h)

    async def test_reports_go_when_who_they_went_to_is_purged(self) -> None:
        async with self.harness() as h:
            await family(h, "a")
            await end(h, await lease_one(h))

            await h.broker.purge(h.queue)

            assert [] == await heard(h)

    async def test_reports_go_when_who_they_went_to_is_pruned(self) -> None:
        async with self.harness() as h:
            await family(h, "a", awaits=1)
            await end(h, await lease_one(h))
            await end(h, await lease_one(h), Archive())

            await h.broker.prune(h.queue, keep=1)
            before = await heard(h)
            await h.broker.prune(h.queue)

            assert (["a"], []) == (ids(before), await heard(h))

    async def test_reports_go_when_the_queue_is_dropped(self) -> None:
        async with self.harness() as h:
            await family(h, "a")
            await end(h, await lease_one(h))

            await h.broker.drop(h.queue)
            await family(h, "a")

            assert [] == await heard(h)
            assert Counts(ready=1, delayed=1) == await counts(h)

    async def test_reports_go_when_one_that_awaits_them_is_sent_anew(self) -> None:
        async with self.harness() as h:
            await family(h, "a", awaits=1)
            await end(h, await lease_one(h))
            await end(h, await lease_one(h), Archive())

            assert [Sent.CREATED] * 2 == await family(h, "a", awaits=1)

            assert [] == await heard(h)
            await end(h, await lease_one(h))
            assert "p" == (await lease_one(h)).receipt.id

    async def test_reports_stay_as_long_as_one_in_the_archive_may_need_them(self) -> None:
        async with self.harness() as h:
            await family(h, "a", awaits=1)
            await end(h, await lease_one(h))
            await end(h, await lease_one(h), Archive())

            await send(h, "p")
            await h.broker.cancel(h.queue, ["p"], to=Delete())
            await send(h, "p")
            await h.broker.purge(h.queue)

            assert ["a"] == ids(await heard(h))
            await h.broker.restore(h.queue, ["p"])
            assert ["a"] == ids(await heard(h))
            await end(h, await lease_one(h))
            assert [] == await heard(h)

    async def test_reports_stay_as_long_as_one_that_awaits_them_is_live(self) -> None:
        async with self.harness() as h:
            await send(h, "p")
            await end(h, await lease_one(h), Archive())
            await family(h, "a", awaits=2)
            await end(h, await lease_one(h))

            assert 1 == await h.broker.prune(h.queue)

            assert ["a"] == ids(await heard(h))

    async def test_a_message_that_has_reported_is_not_sent_again(self) -> None:
        for rule in (None, Update(), Reject()):
            async with self.harness() as h:
                await family(h, "a", awaits=2)
                await end(h, await lease_one(h))

                again = draft(h, "a", b"again", reports_to="p")
                if rule is not None:
                    again = draft(h, "a", b"again", reports_to="p", if_taken=rule)
                sent = await send(h, again, draft(h, "b", reports_to="p"))

                assert [Sent.KEPT, Sent.CREATED] == sent
                assert ["b"] == ids(await lease(h))
                assert None is await h.broker.get(h.queue, "a")

    async def test_a_message_that_has_reported_does_not_follow_again(self) -> None:
        async with self.harness() as h:
            await family(h, "a", "b", awaits=3)
            a, b = await lease(h)
            await end(h, a)

            then = [draft(h, "a", reports_to="p"), draft(h, "c", reports_to="p")]
            await end(h, b, then=then)

            assert ["c"] == ids(await lease(h))

    async def test_only_who_has_heard_of_it_keeps_a_message_from_being_sent(self) -> None:
        async with self.harness() as h:
            await family(h, "a", awaits=2)
            await send(h, draft(h, "q", after=LONG, awaits=2))
            await end(h, await lease_one(h))

            assert [Sent.CREATED] == await send(h, draft(h, "a", reports_to="q"))
            await end(h, await lease_one(h))
            assert [Sent.CREATED] == await send(h, "a")
            await end(h, await lease_one(h))
            await h.broker.cancel(h.queue, ["p"], to=Archive())
            assert [Sent.CREATED] == await send(h, draft(h, "a", reports_to="p"))

    async def test_reports_stay_when_only_a_successor_is_cancelled(self) -> None:
        for to in EVERY_END:
            async with self.harness() as h:
                await family(h, "a", awaits=1)
                await end(h, await lease_one(h))
                held = await lease_one(h)
                await update(h, "p")

                assert set() == await h.broker.cancel(h.queue, ["p"], to=to, running=False)

                assert ["a"] == ids(await heard(h))
                assert await end(h, held)
