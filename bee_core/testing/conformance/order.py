"""The order of delivery: priority, then the time due, then sequence.

Ids are chosen so that the order of their text is never the right answer.
"""

from __future__ import annotations

from bee_core.disposition import Reschedule
from bee_core.message import PRIORITIES
from bee_core.testing.conformance.harness import Conformance
from bee_core.testing.conformance.steps import (
    SHORT,
    draft,
    end,
    ids,
    lapse,
    lease,
    lease_one,
    send,
)


class Ordering(Conformance):
    """Who comes next."""

    async def test_messages_come_first_in_first_out(self) -> None:
        async with self.harness() as h:
            wanted = [f"{(n * 37) % 100:x}" for n in range(100)]
            for id in wanted:
                await send(h, id)

            assert wanted == ids(await lease(h))

    async def test_the_order_is_the_same_when_taken_one_by_one(self) -> None:
        async with self.harness() as h:
            wanted = ["c", "a", "e", "b", "d"]
            await send(h, *wanted)

            assert wanted == [(await lease_one(h)).receipt.id for _ in wanted]

    async def test_a_higher_priority_comes_first(self) -> None:
        async with self.harness() as h:
            shuffled = sorted(PRIORITIES, key=lambda n: (n * 7) % 19)
            await send(h, *(draft(h, str(n), priority=n) for n in shuffled))

            leases = await lease(h)

            assert [str(n) for n in reversed(PRIORITIES)] == ids(leases)

    async def test_messages_of_one_priority_come_first_in_first_out(self) -> None:
        async with self.harness() as h:
            levels = [0, 5, -5, 0, 5, -5]
            await send(h, *(draft(h, f"{9 - n}", priority=p) for n, p in enumerate(levels)))

            assert ["8", "5", "9", "6", "7", "4"] == ids(await lease(h))

    async def test_what_is_due_earlier_comes_earlier(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "c", after=3), draft(h, "a", after=1), draft(h, "b", after=2))

            await h.advance(5)

            assert ["a", "b", "c"] == ids(await lease(h))

    async def test_a_delayed_message_comes_before_one_sent_after_it_fell_due(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "z", after=SHORT))
            await h.advance(2 * SHORT)
            await send(h, "a")

            assert ["z", "a"] == ids(await lease(h))

    async def test_a_delayed_message_comes_after_one_sent_before_it_fell_due(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", after=SHORT), "z")

            await h.advance(2 * SHORT)

            assert ["z", "a"] == ids(await lease(h))

    async def test_priority_goes_before_the_time_due(self) -> None:
        async with self.harness() as h:
            await send(h, "early", draft(h, "urgent", after=SHORT, priority=1))

            await h.advance(2 * SHORT)

            assert ["urgent", "early"] == ids(await lease(h))

    async def test_a_priority_does_not_make_a_message_due(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "urgent", after=SHORT, priority=9), "plain")

            before = ids(await lease(h))
            await h.advance(2 * SHORT)
            after = ids(await lease(h))

            assert (["plain"], ["urgent"]) == (before, after)

    async def test_a_message_whose_lease_ran_out_keeps_its_place(self) -> None:
        async with self.harness() as h:
            await send(h, "c", "b", "a")
            await lapse(h, 2)

            assert ["c", "b", "a"] == ids(await lease(h))

    async def test_a_message_sent_meanwhile_comes_after_one_whose_lease_ran_out(self) -> None:
        async with self.harness() as h:
            await send(h, "b")
            await lapse(h)
            await send(h, "a", draft(h, "urgent", priority=1))

            assert ["urgent", "b", "a"] == ids(await lease(h))

    async def test_a_repeated_message_goes_to_the_back(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b", "c")

            await end(h, await lease_one(h), Reschedule())

            assert ["b", "c", "a"] == ids(await lease(h))

    async def test_a_repeated_message_comes_before_one_sent_after_it(self) -> None:
        async with self.harness() as h:
            await send(h, "b")
            await end(h, await lease_one(h), Reschedule())
            await send(h, "a")

            assert ["b", "a"] == ids(await lease(h))

    async def test_a_message_repeated_later_comes_behind_what_is_due_by_then(self) -> None:
        async with self.harness() as h:
            await send(h, "b", draft(h, "c", after=1), draft(h, "a", after=SHORT + 3))
            await end(h, await lease_one(h), Reschedule(delay=SHORT * h.unit))

            await h.advance(SHORT + 5)

            assert ["c", "b", "a"] == ids(await lease(h))

    async def test_a_message_given_back_to_the_front_has_its_old_place(self) -> None:
        async with self.harness() as h:
            await send(h, "c", "b", "a")
            first, second = await lease(h, 2)

            await end(h, first, Reschedule(front=True))
            await end(h, second, Reschedule(front=True))

            assert ["c", "b", "a"] == ids(await lease(h))

    async def test_the_front_is_still_behind_a_higher_priority(self) -> None:
        async with self.harness() as h:
            await send(h, "plain")
            held = await lease_one(h)
            await send(h, draft(h, "urgent", priority=1))

            await end(h, held, Reschedule(front=True))

            assert ["urgent", "plain"] == ids(await lease(h))

    async def test_a_message_keeps_its_priority_when_it_is_repeated(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "urgent", priority=1), "plain")

            await end(h, await lease_one(h), Reschedule())

            assert ["urgent", "plain"] == ids(await lease(h))
