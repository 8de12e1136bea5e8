"""`Settlement.then`: what is sent in the same step as the lease ends, or not at all."""

from __future__ import annotations

from bee_core.disposition import Archive, Delete, Disposition, Reschedule
from bee_core.message import Reject, Settlement, Update
from bee_core.testing.conformance.harness import Conformance
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
    update,
)


class Following(Conformance):
    """One job leads to the next."""

    async def test_what_follows_is_sent_when_the_lease_ends(self) -> None:
        for way in (Delete(), Archive(), Reschedule(delay=60)):
            async with self.harness() as h:
                await send(h, "a")

                then = [draft(h, "c", b"third", headers={"k": "v"}), draft(h, "b", b"second")]
                assert await end(h, await lease_one(h), way, then=then)
                c, b = await lease(h)

                assert ("c", b"third", {"k": "v"}) == (c.receipt.id, c.body, dict(c.headers))
                assert ("b", b"second") == (b.receipt.id, b.body)

    async def test_what_follows_may_be_delayed(self) -> None:
        async with self.harness() as h:
            await send(h, "a")

            await end(h, await lease_one(h), then=[draft(h, "b", after=LONG)])

            assert Counts(delayed=1) == await counts(h)

    async def test_what_follows_has_its_own_priority(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b")

            await end(h, await lease_one(h), then=[draft(h, "c", priority=1)])

            assert ["c", "b"] == ids(await lease(h))

    async def test_what_follows_meets_the_jobs_that_are_settled_after_it(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b", "c")
            a, b, c = await lease(h)

            first = Settlement(a.receipt, Delete())
            second = Settlement(b.receipt, Delete(), then=[draft(h, "c", b"new"), draft(h, "a")])
            third = Settlement(c.receipt, Delete())
            assert set() == await h.broker.settle(h.queue, [first, second, third])

            assert ["a"] == ids(await lease(h))  # it was gone; c was still there, and was kept

    async def test_nothing_follows_a_lease_that_was_lost(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            stale = await lapse_one(h)
            await lease_one(h)

            assert not await end(h, stale, then=[draft(h, "b")])

            assert Counts(leased=1) == await counts(h)

    async def test_nothing_follows_twice(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            held = await lease_one(h)
            await end(h, held, then=[draft(h, "b")])
            await end(h, await lease_one(h))

            assert not await end(h, held, then=[draft(h, "b")])

            assert Counts() == await counts(h)

    async def test_in_a_batch_only_what_follows_the_applied_ones_is_sent(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b", "c")
            a, b, c = await lease(h)
            await end(h, b)

            settlements = [
                Settlement(one.receipt, Delete(), then=[draft(h, f"after {one.receipt.id}")])
                for one in (a, b, c)
            ]
            lost = await h.broker.settle(h.queue, settlements)

            assert {b.receipt} == lost
            assert ["after a", "after c"] == ids(await lease(h))

    async def test_what_follows_leaves_a_live_message_as_it_is(self) -> None:
        async with self.harness() as h:
            await send(h, "a", draft(h, "b", b"first"))

            assert await end(h, await lease_one(h), then=[draft(h, "b", b"second")])

            assert [b"first"] == [one.body for one in await lease(h)]

    async def test_what_follows_is_never_refused_for_a_taken_id(self) -> None:
        async with self.harness() as h:
            await send(h, "a", draft(h, "b", b"first"))

            then = [draft(h, "b", b"second", if_taken=Reject()), draft(h, "c", if_taken=Reject())]
            assert await end(h, await lease_one(h), then=then)

            assert [b"first", b"body"] == [one.body for one in await lease(h)]

    async def test_what_follows_may_change_a_message_that_waits(self) -> None:
        async with self.harness() as h:
            await send(h, "a", draft(h, "b", b"first"))

            then = [draft(h, "b", b"second", if_taken=Update())]
            assert await end(h, await lease_one(h), then=then)

            assert [b"second"] == [one.body for one in await lease(h)]

    async def test_what_follows_may_follow_a_message_that_is_held(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b")
            a, b = await lease(h)

            then = [draft(h, "b", b"second", if_taken=Update())]
            assert await end(h, a, then=then)
            meanwhile = await counts(h)
            assert await end(h, b)

            assert Counts(leased=1, blocked=1) == meanwhile
            assert b"second" == (await lease_one(h)).body

    async def test_a_message_may_be_followed_by_itself(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", b"first"))
            before = await look(h, "a")

            assert await end(h, await lease_one(h), then=[draft(h, "a", b"second")])
            after = await look(h, "a")

            assert (b"second", 0) == (after.body, after.counters.deliveries)
            assert before.incarnation < after.incarnation

    async def test_messages_settled_together_may_each_be_followed_by_itself(self) -> None:
        async with self.harness() as h:
            await send(h, "lost")
            stale = await lapse_one(h)
            await send(h, "deleted", "archived", "repeated")
            held = {one.receipt.id: one for one in await lease(h)}
            ways: dict[str, Disposition] = {
                "deleted": Delete(),
                "archived": Archive(),
                "repeated": Reschedule(delay=LONG),
            }
            again = [
                Settlement(held[id].receipt, way, then=[draft(h, id, b"second", if_taken=Update())])
                for id, way in ways.items()
            ]
            late = Settlement(stale.receipt, Delete(), then=[draft(h, "lost", b"second")])

            lost = await h.broker.settle(h.queue, [again[0], late, *again[1:]])

            assert {stale.receipt} == lost
            assert {b"second"} == {(await look(h, id)).body for id in ways}
            assert b"second" != (await look(h, "lost")).body

    async def test_what_follows_may_change_the_message_that_is_repeated(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", b"first"))

            then = [draft(h, "a", b"second", if_taken=Update())]
            assert await end(h, await lease_one(h), Reschedule(delay=60), then=then)

            assert [b"second"] == [one.body for one in await lease(h)]

    async def test_what_follows_comes_after_the_successor(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            held = await lease_one(h)
            await update(h, "a", b"successor")

            assert await end(h, held, then=[draft(h, "a", b"too late"), draft(h, "b")])
            leases = await lease(h)

            assert ["a", "b"] == ids(leases)
            assert b"successor" == leases[0].body
