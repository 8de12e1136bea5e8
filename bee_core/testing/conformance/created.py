"""`QueueStats.created` and `ended`: how many messages there have been, whatever became of them."""

from __future__ import annotations

from bee_core.disposition import Archive, Delete, Reschedule
from bee_core.errors import IdTaken
from bee_core.message import Reject
from bee_core.testing.conformance.archive import archive
from bee_core.testing.conformance.harness import Conformance, Harness
from bee_core.testing.conformance.reports import family
from bee_core.testing.conformance.steps import (
    LONG,
    draft,
    end,
    lapse,
    lease,
    lease_one,
    refuses,
    send,
    update,
)


class Created(Conformance):
    """It only grows."""

    async def test_what_is_sent_has_come_into_being(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b", draft(h, "c", after=LONG))

            assert (3, 0) == await so_far(h)

    async def test_what_has_ended_still_counts(self) -> None:
        async with self.harness() as h:
            await send(h, *"abcde")
            a, b, _ = await lease(h, 3)

            await end(h, a, Delete())
            await end(h, b, Archive())
            await h.broker.cancel(h.queue, ["c", "d"], to=Delete())

            assert (5, 4) == await so_far(h)

    async def test_what_is_leased_repeated_or_taken_over_counts_once(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            await lapse(h)
            await end(h, await lease_one(h), Reschedule())
            await lease_one(h)

            assert (1, 0) == await so_far(h)

    async def test_what_was_there_already_is_not_created(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b")
            await lease_one(h)

            await send(h, "a", "b")
            await update(h, "a")
            await update(h, "b")
            with refuses(IdTaken):
                await send(h, "c", draft(h, "a", if_taken=Reject()))

            assert (2, 0) == await so_far(h)

    async def test_what_has_reported_already_is_not_created(self) -> None:
        async with self.harness() as h:
            await family(h, "a", awaits=2)
            await end(h, await lease_one(h))

            await send(h, draft(h, "a", reports_to="p"))

            assert (2, 1) == await so_far(h)

    async def test_what_follows_is_created(self) -> None:
        async with self.harness() as h:
            await send(h, "a")

            await end(h, await lease_one(h), then=[draft(h, "b"), draft(h, "c", after=LONG)])

            assert (3, 1) == await so_far(h)

    async def test_a_successor_is_created_when_it_is_freed(self) -> None:
        for way in (Delete(), Archive()):
            async with self.harness() as h:
                await send(h, "a")
                held = await lease_one(h)
                await update(h, "a")
                before = await so_far(h)

                await end(h, held, way)

                assert ((1, 0), (2, 1)) == (before, await so_far(h))

    async def test_a_successor_that_is_merged_or_cancelled_is_not_created(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            held = await lease_one(h)
            await update(h, "a")
            await h.broker.cancel(h.queue, ["a"], to=Archive(), running=False)
            await update(h, "a")

            await end(h, held, Reschedule())

            assert (1, 0) == await so_far(h)

    async def test_what_is_restored_is_created_again(self) -> None:
        async with self.harness() as h:
            await archive(h, "a")

            await h.broker.restore(h.queue, ["a", "b"])

            assert (2, 1) == await so_far(h)

    async def test_what_is_purged_has_ended(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b", draft(h, "c", after=LONG))
            await lease_one(h)
            await update(h, "a")

            await h.broker.purge(h.queue)

            assert (3, 2) == await so_far(h)

    async def test_pruning_changes_nothing(self) -> None:
        async with self.harness() as h:
            await archive(h, "a")

            await h.broker.prune(h.queue)

            assert (1, 1) == await so_far(h)

    async def test_a_dropped_queue_begins_to_count_anew(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b")

            await h.broker.drop(h.queue)
            before = await so_far(h)
            await send(h, "a")

            assert ((0, 0), (1, 0)) == (before, await so_far(h))

    async def test_one_queue_does_not_count_for_another(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b")
            await h.broker.send(h.other_queue, [draft(h, "a")])

            assert 1 == (await h.broker.stats(h.other_queue)).created


async def so_far(h: Harness) -> tuple[int, int]:
    """How many messages there have been, and how many have ended."""
    stats = await h.broker.stats(h.queue)
    return stats.created, stats.ended
