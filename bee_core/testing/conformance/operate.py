"""Acting on a whole queue: purge, drop, pause, resume."""

from __future__ import annotations

from bee_core.disposition import Archive, Reschedule
from bee_core.message import Sent
from bee_core.stored import QueueStats, State
from bee_core.testing.conformance.archive import archive, archived
from bee_core.testing.conformance.harness import Conformance
from bee_core.testing.conformance.steps import (
    LONG,
    SHORT,
    Counts,
    counts,
    draft,
    end,
    extend,
    ids,
    lapse,
    lapse_one,
    lease,
    lease_one,
    look,
    send,
    update,
)


class Operating(Conformance):
    """The broom, the axe and the brake."""

    async def test_purging_deletes_everything_that_waits_and_says_how_much(self) -> None:
        async with self.harness() as h:
            await archive(h, "archived")
            await send(h, "held", "free", "ready", draft(h, "delayed", after=LONG))
            held, _ = await lease(h, 2)
            await update(h, "held")

            purged = await h.broker.purge(h.queue)

            assert 3 == purged
            assert Counts(leased=2) == await counts(h)
            assert ["archived"] == await archived(h)
            assert await end(h, held)
            assert Counts(leased=1) == await counts(h)
            assert 0 == await h.broker.purge(h.queue)

    async def test_a_lease_that_ran_out_is_not_purged_until_it_is_taken_over(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b")
            lapsed = await lapse(h)
            taken = await lease_one(h)  # the other one has been seen to have run out

            assert 0 == await h.broker.purge(h.queue)

            (left,) = (one for one in lapsed if one.receipt.id != taken.receipt.id)
            assert await end(h, left)

    async def test_a_purged_id_is_free_again(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", b"old"), draft(h, "b", after=LONG))
            await h.broker.purge(h.queue)

            sent = await send(h, draft(h, "a", b"new"), "b")

            assert [Sent.CREATED] * 2 == sent
            assert [b"new", b"body"] == [one.body for one in await lease(h)]

    async def test_purging_one_queue_leaves_another_alone(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            await h.broker.send(h.other_queue, [draft(h, "a")])

            await h.broker.purge(h.queue)

            assert Counts(ready=1) == await counts(h, h.other_queue)

    async def test_dropping_a_queue_deletes_all_it_holds(self) -> None:
        async with self.harness() as h:
            await archive(h, "archived")
            await send(h, "held", "ready", draft(h, "delayed", after=LONG))
            await lease_one(h)
            await update(h, "held")
            await h.broker.pause(h.queue)

            await h.broker.drop(h.queue)
            await h.broker.drop(h.queue)

            stats = await h.broker.stats(h.queue)
            assert QueueStats(token=stats.token) == stats
            assert h.queue not in await h.broker.queues()
            found = [await h.broker.get(h.queue, id) for id in ("archived", "held", "ready")]
            assert [None] * 3 == found
            for state in State:
                assert [] == list((await h.broker.scan(h.queue, state)).items)

    async def test_a_lease_of_a_dropped_queue_is_lost(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            held = await lease_one(h)
            await h.broker.drop(h.queue)
            await send(h, draft(h, "a", b"new"))

            assert not await extend(h, held)
            assert not await end(h, held, then=[draft(h, "b")])

            assert [b"new"] == [one.body for one in await lease(h)]

    async def test_a_lease_of_a_dropped_queue_does_not_come_back(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            await lease_one(h, units=SHORT)

            await h.broker.drop(h.queue)
            await h.advance(2 * SHORT)

            assert [] == await lease(h)

    async def test_dropping_one_queue_leaves_another_alone(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            await h.broker.send(h.other_queue, [draft(h, "a")])

            await h.broker.drop(h.queue)

            assert Counts(ready=1) == await counts(h, h.other_queue)

    async def test_a_dropped_queue_can_be_used_again(self) -> None:
        async with self.harness() as h:
            await archive(h, "a", b"old")
            before = await look(h, "a")
            await h.broker.drop(h.queue)

            sent = await send(h, "a")

            assert [Sent.CREATED] == sent
            assert before.incarnation < (await look(h, "a")).incarnation
            assert ["a"] == ids(await lease(h))

    async def test_a_paused_queue_gives_nothing(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            await lapse_one(h)
            await send(h, "b")

            await h.broker.pause(h.queue)
            await h.broker.pause(h.queue)

            assert [] == await lease(h)
            assert (await h.broker.stats(h.queue)).paused
            assert Counts(ready=2) == await counts(h)

    async def test_a_queue_can_be_paused_before_there_is_anything_in_it(self) -> None:
        async with self.harness() as h:
            await h.broker.pause(h.queue)
            await send(h, "a")

            assert [] == await lease(h)

    async def test_a_pause_holds_for_every_clone(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            await h.broker.pause(h.queue)

            async with h.broker.clone() as clone:
                assert [] == await clone.lease(h.queue, limit=1, duration=60, holder="w")

    async def test_what_is_held_goes_on_while_the_queue_is_paused(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b", "c")
            a, b, c = await lease(h)
            await h.broker.pause(h.queue)

            assert await extend(h, a)
            assert await end(h, a, then=[draft(h, "d")])
            assert await end(h, b, Reschedule())
            assert await end(h, c, Archive())
            assert [Sent.CREATED] == await send(h, "e")
            assert set() == await h.broker.cancel(h.queue, ["e"], to=Archive())
            assert set() == await h.broker.restore(h.queue, ["c"])

            assert Counts(ready=3) == await counts(h)

    async def test_a_resumed_queue_goes_on_where_it_stopped(self) -> None:
        async with self.harness() as h:
            await send(h, "b", "a")
            await h.broker.pause(h.queue)

            await h.broker.resume(h.queue)
            await h.broker.resume(h.queue)

            assert not (await h.broker.stats(h.queue)).paused
            assert ["b", "a"] == ids(await lease(h))

    async def test_a_pause_of_one_queue_leaves_another_alone(self) -> None:
        async with self.harness() as h:
            await h.broker.pause(h.queue)
            await h.broker.send(h.other_queue, [draft(h, "a")])

            leases = await h.broker.lease(h.other_queue, limit=1, duration=60, holder="w")

            assert ["a"] == ids(leases)
