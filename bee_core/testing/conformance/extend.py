"""`extend`: a lease goes on from now, if its token is still the one its message carries."""

from __future__ import annotations

from bee_core.disposition import Archive, Reschedule
from bee_core.message import Counters
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
    lapse_one,
    lease,
    lease_one,
    look,
    send,
)


class Extending(Conformance):
    """`extend`: the token decides, not the clock."""

    async def test_an_extended_lease_does_not_run_out(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            held = await lease_one(h, units=SHORT)

            assert await extend(h, held, LONG)
            await h.advance(2 * SHORT)

            assert [] == await lease(h)
            assert await end(h, held)

    async def test_a_lease_is_extended_from_now_and_not_from_its_end(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            held = await lease_one(h, units=LONG)

            assert await extend(h, held, SHORT)
            await h.advance(2 * SHORT)

            assert ["a"] == ids(await lease(h))

    async def test_a_lease_that_ran_out_can_be_extended_until_it_is_taken_over(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            late = await lapse_one(h)

            assert await extend(h, late, LONG)

            assert [] == await lease(h)
            assert Counts(leased=1) == await counts(h)
            assert Counters(deliveries=1) == (await look(h, "a")).counters

    async def test_a_lease_that_was_taken_over_cannot_be_extended(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            old = await lapse_one(h)
            await lease_one(h, units=SHORT)

            assert not await extend(h, old, LONG)
            await h.advance(2 * SHORT)

            assert ["a"] == ids(await lease(h))

    async def test_a_lease_that_was_settled_cannot_be_extended(self) -> None:
        async with self.harness() as h:
            await send(h, "gone", "kept", "back")
            gone, kept, back = await lease(h)
            await end(h, gone)
            await end(h, kept, Archive())
            await end(h, back, Reschedule())

            receipts = [gone.receipt, kept.receipt, back.receipt]
            lost = await h.broker.extend(h.queue, receipts, duration=LONG * h.unit)

            assert set(receipts) == lost
            assert Counts(ready=1) == await counts(h)

    async def test_extending_names_only_the_lost_ones(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b", "c")
            a, b, c = await lease(h, units=SHORT)
            await end(h, b)

            receipts = [a.receipt, b.receipt, c.receipt]
            lost = await h.broker.extend(h.queue, receipts, duration=LONG * h.unit)
            await h.advance(2 * SHORT)

            assert {b.receipt} == lost
            assert Counts(leased=2) == await counts(h)

    async def test_extending_changes_nothing_but_the_end_of_the_lease(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            held = await lease_one(h, holder="alice")
            before = await look(h, "a")

            await extend(h, held, 2 * LONG)
            after = await look(h, "a")

            assert (before.counters, before.due_at, before.holder, before.incarnation) == (
                after.counters,
                after.due_at,
                after.holder,
                after.incarnation,
            )
            assert before.leased_until is not None
            assert after.leased_until is not None
            assert before.leased_until < after.leased_until

    async def test_a_lease_of_another_queue_cannot_be_extended_here(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            await h.broker.send(h.other_queue, [draft(h, "a")])
            held = await lease_one(h)

            lost = await h.broker.extend(h.other_queue, [held.receipt], duration=60)

            assert {held.receipt} == lost
            assert Counts(ready=1) == await counts(h, h.other_queue)
