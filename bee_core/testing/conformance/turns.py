"""Turns: in which order the messages of a key come, and what a lease that ran out means for it."""

from __future__ import annotations

import asyncio
from collections import Counter

from bee_core.broker import Store
from bee_core.disposition import Delete, Reschedule
from bee_core.errors import BrokerUnavailable
from bee_core.message import Counters, Settlement, Throttle, Update
from bee_core.testing.conformance.harness import Conformance
from bee_core.testing.conformance.keys import in_turn, line
from bee_core.testing.conformance.steps import (
    LONG,
    SHORT,
    Counts,
    clones,
    counts,
    draft,
    end,
    extend,
    ids,
    lapse,
    lapse_one,
    lease,
    look,
    rate,
    send,
    update,
)
from bee_core.testing.conformance.together import CLIENTS, take


class Turns(Conformance):
    """Who comes next, if somebody is urgent, late, dead, replaced."""

    async def test_the_messages_of_a_key_come_in_the_order_of_the_queue(self) -> None:
        async with self.harness() as h:
            await send(
                h,
                draft(h, "first", key="k"),
                draft(h, "later", key="k", after=SHORT),
                draft(h, "d", key="k"),
                draft(h, "c", key="k"),
                draft(h, "low", key="k", priority=-1),
                draft(h, "high", key="k", priority=1),
            )
            await h.advance(2 * SHORT)

            assert ["high", "first", "d", "c", "later", "low"] == await in_turn(h)

    async def test_an_urgent_message_goes_before_those_that_wait_for_the_key(self) -> None:
        for looked in (False, True):
            async with self.harness() as h:
                await line(h, "b", "a")
                (held,) = await lease(h)
                await send(h, draft(h, "urgent", key="k", priority=5))
                if looked:
                    assert [] == await lease(h)

                await end(h, held)

                assert ["urgent", "a"] == await in_turn(h)

    async def test_a_delayed_message_waits_for_its_time_and_for_its_key(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "late", key="k", after=LONG))
            await line(h, "a")
            (held,) = await lease(h)
            await send(h, draft(h, "soon", key="k", after=SHORT))

            await h.advance(2 * SHORT)
            meanwhile = await lease(h)
            await end(h, held)

            assert ("a", []) == (held.receipt.id, meanwhile)
            assert ["soon"] == ids(await lease(h))

    async def test_a_lease_that_ran_out_keeps_its_key_until_it_is_taken_over(self) -> None:
        async with self.harness() as h:
            await line(h, "b")
            await lapse_one(h)
            await send(h, draft(h, "urgent", key="k", priority=5))

            (again,) = await lease(h)

            assert ("b", Counters(deliveries=2, stalls=1)) == (again.receipt.id, again.counters)
            assert [] == await lease(h)
            await end(h, again)
            assert ["urgent"] == ids(await lease(h))

    async def test_who_is_late_may_still_free_the_key(self) -> None:
        async with self.harness() as h:
            await line(h, "b", "a")
            late = await lapse_one(h)

            assert await end(h, late)

            assert ["a"] == ids(await lease(h))

    async def test_a_lease_that_ran_out_and_was_extended_keeps_its_key(self) -> None:
        for looked in (False, True):
            async with self.harness() as h:
                await line(h, "b", "a")
                if looked:
                    (late,) = await lease(h, units=SHORT)
                    await h.advance(2 * SHORT)
                else:
                    late = await lapse_one(h)

                assert await extend(h, late)

                assert [] == await lease(h)
                await end(h, late)
                assert ["a"] == ids(await lease(h))

    async def test_when_a_holder_has_died_the_key_goes_on_after_its_message(self) -> None:
        async with self.harness() as h:
            await line(h, "c", "b", "a")
            await lease(h, units=SHORT)
            await h.advance(2 * SHORT)

            assert ["c", "b", "a"] == await in_turn(h)

    async def test_one_that_is_taken_over_and_put_off_lets_its_key_go(self) -> None:
        async with self.harness() as h:
            await line(h, "b", "a")
            await lease(h, units=SHORT)
            await send(h, draft(h, "b", key="k", after=LONG, if_taken=Update()))
            await h.advance(2 * SHORT)

            assert ["a"] == ids(await lease(h))
            assert Counts(delayed=1, leased=1) == await counts(h)

    async def test_one_that_is_taken_over_and_gets_another_key_lets_the_old_one_go(self) -> None:
        async with self.harness() as h:
            await line(h, "b", "a")
            await lapse_one(h)
            await send(h, draft(h, "b", key="other", if_taken=Update()))

            leases = await lease(h)

            assert {"a": "k", "b": "other"} == {one.receipt.id: one.key for one in leases}

    async def test_a_successor_waits_for_its_own_key(self) -> None:
        for key, wanted in (("k", ["a"]), ("free", ["a", "b"]), (None, ["a", "b"]), ("x", ["a"])):
            async with self.harness() as h:
                await line(h, "b", "a")
                await line(h, "held", key="x")
                held, _ = await lease(h)
                await send(h, draft(h, "b", key=key, if_taken=Update()))

                await end(h, held)

                assert wanted == ids(await lease(h))

    async def test_a_message_that_is_merged_while_held_lets_its_old_key_go(self) -> None:
        async with self.harness() as h:
            await line(h, "b", "a")
            (held,) = await lease(h)
            await send(h, draft(h, "b", key="other", if_taken=Update()))

            await end(h, held, Reschedule())
            a, b = await lease(h)
            await line(h, "d")
            await line(h, "c", key="other")

            assert ["a", "b"] == ids([a, b])
            assert [] == await lease(h)
            await end(h, b)
            assert ["c"] == ids(await lease(h))
            await end(h, a)
            assert ["d"] == ids(await lease(h))

    async def test_what_follows_has_a_key_of_its_own(self) -> None:
        async with self.harness() as h:
            await line(h, "c", "b")
            await line(h, "held", key="x")
            (held, _) = await lease(h)

            then = [draft(h, "a", key="k"), draft(h, "y", key="x"), draft(h, "z", key="free")]
            await end(h, held, then=then)

            assert ["b", "z"] == ids(await lease(h))

    async def test_a_successor_that_is_told_to_keep_the_policy_keeps_the_key(self) -> None:
        async with self.harness() as h:
            await line(h, "b", "a")
            (held,) = await lease(h)
            await update(h, "b", rule=Update(policy=False))

            await end(h, held, Reschedule())

            assert "k" == (await look(h, "b")).key
            assert ["a"] == ids(await lease(h))

    async def test_one_that_is_taken_over_counts_against_the_rate_of_its_key(self) -> None:
        async with self.harness() as h:
            throttle = Throttle(per_key=2, key_rate=rate(h, 3))
            await line(h, "b", "a")
            await lapse(h, throttle=throttle)

            assert ["b"] == ids(await lease(h, throttle=throttle))

    async def test_a_rate_that_has_become_faster_is_what_counts(self) -> None:
        async with self.harness() as h:
            slow = Throttle(per_key=None, key_rate=rate(h, 1))
            fast = Throttle(per_key=None, key_rate=rate(h, 1, SHORT))
            await line(h, "c", "b", "a")
            (held,) = await lease(h, throttle=slow)
            await end(h, held)
            await h.advance(2 * SHORT)
            (held,) = await lease(h, throttle=fast)
            await end(h, held)
            assert [] == await lease(h, throttle=fast)

            await h.advance(2 * SHORT)

            assert ["a"] == ids(await lease(h, throttle=fast))


class Crowded(Conformance):
    """Many who lease at once."""

    async def test_however_many_lease_at_once_a_key_has_one_holder(self) -> None:
        await self._crowd(Throttle(), 1)

    async def test_however_many_lease_at_once_a_key_has_no_more_holders_than_may_be(self) -> None:
        await self._crowd(Throttle(per_key=3), 3)

    async def _crowd(self, throttle: Throttle, most: int) -> None:
        keys, each = 4, 15
        async with self.harness() as h, clones(h, CLIENTS) as brokers:
            wanted = [f"{n % keys} {n // keys:02}" for n in range(keys * each)]
            await send(h, *(draft(h, id, key=id[0]) for id in wanted))
            held, done = Counter[str | None](), list[str]()

            async def work(broker: Store) -> None:
                for _ in range(50 * len(wanted)):
                    try:
                        leases = await take(h, broker, 2, throttle=throttle)
                    except BrokerUnavailable:  # so many that one could not wait any longer
                        continue
                    held.update(one.key for one in leases)
                    done.extend(ids(leases))
                    assert max(held.values(), default=0) <= most, "a key has too many holders"
                    await asyncio.sleep(0)
                    held.subtract(one.key for one in leases)
                    ends = [Settlement(one.receipt, Delete()) for one in leases]
                    assert set() == await broker.settle(h.queue, ends)
                    if len(done) >= len(wanted):
                        return
                    await asyncio.sleep(0)

            await asyncio.gather(*map(work, brokers))

            assert Counter(wanted) == Counter(done)
            assert Counts() == await counts(h)
            if most == 1:
                in_order = sorted(done, key=lambda one: one[0])
                assert sorted(wanted) == in_order, "within a key the order was lost"
