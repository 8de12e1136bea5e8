"""Rates: so many deliveries in any stretch of time, counted by the store, of all who lease.

A LONG stretch shows that no more are given, a SHORT one, waited out, that they are given again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from bee_core.disposition import Archive, Delete, Disposition, Reschedule
from bee_core.message import Counters, Throttle, Update
from bee_core.testing.conformance.harness import Conformance, Harness
from bee_core.testing.conformance.keys import line
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
    lease,
    rate,
    running,
    send,
    soon,
)
from bee_core.testing.conformance.together import CLIENTS, take
from bee_core.testing.conformance.waiting import fetch

EVERY_WAY: list[Disposition] = [Delete(), Archive(), Reschedule(), Reschedule(front=True)]
Throttling: TypeAlias = Callable[[Harness], Throttle]


class Throttled(Conformance):
    """How fast a queue goes, and each of its keys."""

    async def test_no_more_is_delivered_than_the_rate_of_the_queue_allows(self) -> None:
        async with self.harness() as h:
            three = Throttle(rate=rate(h, 3))
            await send(h, "e", "d", draft(h, "c", key="k"), "b", "a")

            calls = [ids(await lease(h, limit, throttle=three)) for limit in (2, 100, 1)]

            assert [["e", "d"], ["c"], []] == calls
            assert Counts(ready=2, leased=3) == await counts(h)

    async def test_the_end_of_a_message_does_not_give_its_delivery_back(self) -> None:
        for way in EVERY_WAY:
            async with self.harness() as h:
                one = Throttle(rate=rate(h, 1), key_rate=rate(h, 1))
                await line(h, "b", "a")
                (held,) = await lease(h, throttle=one)

                await end(h, held, way)

                assert [] == await lease(h, throttle=one)

    async def test_the_last_of_a_queue_takes_no_count_with_it(self) -> None:
        for throttle in self._both(1):
            async with self.harness() as h:
                await line(h, "b")
                await end(h, (await lease(h, throttle=throttle(h)))[0])
                await line(h, "a")

                assert [] == await lease(h, throttle=throttle(h))

    async def test_when_the_time_is_over_as_many_are_delivered_again(self) -> None:
        async with self.harness() as h:
            two = Throttle(rate=rate(h, 2, SHORT))
            await send(h, "e", "d", "c", "b", "a")

            first = ids(await lease(h, throttle=two))
            await h.advance(2 * SHORT)
            second = ids(await lease(h, throttle=two))

            assert (["e", "d"], ["c", "b"]) == (first, second)

    async def test_the_stretch_of_time_may_begin_at_any_moment(self) -> None:
        for throttle in self._both(2, units=20):
            async with self.harness() as h:
                await line(h, "e", "d", "c", "b", "a")

                seen = [len(await lease(h, 1, throttle=throttle(h)))]
                await h.advance(14)
                seen.append(len(await lease(h, throttle=throttle(h))))
                await h.advance(10)
                seen.append(len(await lease(h, throttle=throttle(h))))

                assert [1, 1, 1] == seen

    async def test_in_no_stretch_of_time_more_is_delivered_than_is_allowed(self) -> None:
        for throttle in self._both(3, units=5):
            async with self.harness() as h, clones(h, CLIENTS) as brokers:
                await line(h, *(f"{n}" for n in range(12)))
                times: list[float] = []

                for _ in range(100):
                    taken = await asyncio.gather(
                        *(take(h, broker, 2, throttle=throttle(h)) for broker in brokers)
                    )
                    times += [one.leased_at for some in taken for one in some]
                    if len(times) >= 12:
                        break
                    await h.advance(1)

                times.sort()
                assert 12 == len(times)
                gaps = [last - first for first, last in zip(times, times[3:], strict=False)]
                assert 5 * h.unit - 0.001 <= min(gaps)

    async def test_a_lease_that_is_taken_over_is_a_delivery(self) -> None:
        for throttle in self._both(2):
            async with self.harness() as h:
                await line(h, "b")
                await lapse(h, throttle=throttle(h))

                (again,) = await lease(h, throttle=throttle(h))
                await line(h, "a")

                assert Counters(deliveries=2, stalls=1) == again.counters
                assert [] == await lease(h, throttle=throttle(h))

    async def test_a_lease_that_ran_out_is_held_back_too(self) -> None:
        for throttle in self._both(1):
            async with self.harness() as h:
                await line(h, "b", "a")
                (late,) = await lapse(h, throttle=throttle(h))

                assert [] == await lease(h, throttle=throttle(h))
                assert await extend(h, late)
                assert Counts(ready=1, leased=1) == await counts(h)
                assert await end(h, late, Reschedule(front=True))
                assert Counts(ready=2) == await counts(h)
                assert [] == await lease(h, throttle=throttle(h))
                assert set() == await h.broker.cancel(h.queue, ["b"], to=Delete())

    async def test_a_lease_that_ran_out_is_taken_over_when_its_time_has_come(self) -> None:
        for throttle in self._both(1, units=3 * SHORT):
            async with self.harness() as h:
                await line(h, "b", "a")
                (late,) = await lapse(h, throttle=throttle(h))
                await lease(h, throttle=throttle(h), units=SHORT)
                await extend(h, late, SHORT)
                await h.advance(4 * SHORT)

                (again,) = await lease(h, throttle=throttle(h))

                assert "b" == again.receipt.id
                assert again.counters.stalls in (1, 2)  # two, if the store was slow before

    async def test_a_lease_that_ran_out_is_not_shut_out_by_those_that_wait_for_it(self) -> None:
        async with self.harness() as h:
            slow = Throttle(key_rate=rate(h, 1, 3 * SHORT))
            await line(h, "low")
            await lapse(h, throttle=slow)
            await send(h, draft(h, "high", key="k", priority=9))

            early = await lease(h, throttle=slow)
            await h.advance(4 * SHORT)

            assert ["low"] == ids(early or await lease(h, throttle=slow))

    async def test_each_key_has_a_rate_of_its_own(self) -> None:
        async with self.harness() as h:
            two = Throttle(per_key=None, key_rate=rate(h, 2))
            await line(h, "i", "h", "g")
            await line(h, "f", "e", "d", key="other")
            await send(h, "c", "b", "a")

            assert ["i", "h", "f", "e", "c", "b", "a"] == ids(await lease(h, throttle=two))
            assert [] == await lease(h, throttle=two)

    async def test_a_key_goes_as_fast_as_its_rate_and_its_holders_allow(self) -> None:
        async with self.harness() as h:
            two = Throttle(key_rate=rate(h, 2))
            await line(h, "d", "c", "b", "a")
            seen = []

            for _ in range(4):
                leases = await lease(h, throttle=two)
                seen.append(ids(leases))
                assert [] == await lease(h, throttle=two)
                for one in leases:
                    await end(h, one)

            assert [["d"], ["c"], [], []] == seen

    async def test_a_key_is_looked_at_again_when_its_time_has_come(self) -> None:
        async with self.harness() as h:
            two = Throttle(per_key=None, key_rate=rate(h, 2, SHORT))
            await line(h, "e", "d", "c", "b", "a")
            seen = []

            for _ in range(3):
                seen.append(ids(await lease(h, throttle=two)))
                await h.advance(2 * SHORT)

            assert [["e", "d"], ["c", "b"], ["a"]] == seen

    async def test_a_key_whose_time_has_come_still_waits_for_its_holder(self) -> None:
        async with self.harness() as h:
            one = Throttle(key_rate=rate(h, 1, SHORT))
            await line(h, "b", "a")
            (held,) = await lease(h, throttle=one)
            assert [] == await lease(h, throttle=one)
            await h.advance(2 * SHORT)

            assert [] == await lease(h, throttle=one)
            await end(h, held)
            assert ["a"] == ids(await lease(h, throttle=one))

    async def test_what_waits_for_its_time_can_be_changed_or_cancelled(self) -> None:
        async with self.harness() as h:
            one = Throttle(per_key=None, key_rate=rate(h, 1))
            await line(h, "d", "c", "b", "a")
            await lease(h, throttle=one)

            await send(h, draft(h, "b", key="free", if_taken=Update()))
            await h.broker.cancel(h.queue, ["c"], to=Delete())

            assert ["b"] == ids(await lease(h, throttle=one))
            assert Counts(ready=1, leased=2) == await counts(h)
            assert 1 == await h.broker.purge(h.queue)

    async def test_what_waits_for_its_time_does_not_come_earlier_if_others_end(self) -> None:
        async with self.harness() as h:
            two = Throttle(per_key=None, key_rate=rate(h, 2))
            await line(h, "e", "d", "c", "b", "a")
            first, second = await lease(h, throttle=two)

            await end(h, first)
            await h.broker.cancel(h.queue, ["c"], to=Delete())
            await end(h, second, Reschedule(delay=LONG * h.unit))

            assert [] == await lease(h, throttle=two)
            assert Counts(ready=2, delayed=1) == await counts(h)

    async def test_a_slow_key_does_not_hide_who_is_behind_it(self) -> None:
        async with self.harness() as h:
            one = Throttle(key_rate=rate(h, 1))
            await line(h, *(f"{n}" for n in range(200)))
            await send(h, draft(h, "b", key="other"), "a")
            (first,) = await lease(h, 1, throttle=one)
            await end(h, first)

            async with running(fetch(h, one)) as worker:
                assert "b" == await soon(h, worker, "a slow key blocks the queue")
            assert ["a"] == ids(await lease(h, throttle=one))

    async def test_what_is_passed_over_does_not_count_as_delivered(self) -> None:
        async with self.harness() as h:
            three = Throttle(rate=rate(h, 3))
            await line(h, "e", "d")
            await send(h, "c", "b", "a")

            calls = [ids(await lease(h, 1, throttle=three)) for _ in range(4)]

            assert [["e"], ["c"], ["b"], []] == calls

    async def test_what_is_held_back_keeps_its_place(self) -> None:
        for throttle in self._both(1, units=SHORT):
            async with self.harness() as h:
                await line(h, "c", "b", "a")
                await end(h, (await lease(h, throttle=throttle(h)))[0])
                await lease(h, throttle=throttle(h), units=1)
                await send(h, draft(h, "urgent", key="k", priority=5))
                await h.advance(2 * SHORT)

                assert ["urgent"] == ids(await lease(h, throttle=throttle(h)))

    async def test_who_asks_for_less_gets_less(self) -> None:
        async with self.harness() as h:
            await send(h, "f", "e", "d", "c", "b", "a")

            seen = [
                ids(await lease(h, limit, throttle=Throttle(rate=rate(h, times))))
                for limit, times in ((3, 5), (100, 2), (100, 4), (100, 3))
            ]

            assert [["f", "e", "d"], [], ["c"], []] == seen

    async def test_all_who_lease_share_one_rate(self) -> None:
        for throttle in self._both(3):
            async with self.harness() as h, clones(h, CLIENTS) as brokers:
                await line(h, *(f"{n}" for n in range(20)))

                taken = await asyncio.gather(
                    *(take(h, broker, 2, throttle=throttle(h)) for broker in brokers)
                )

                rest = await lease(h, throttle=throttle(h))  # of what nobody got in the crowd

                assert 3 == sum(map(len, [*taken, rest]))
                assert [] == await lease(h, throttle=throttle(h))

    async def test_the_rate_of_one_queue_leaves_another_alone(self) -> None:
        for throttle in self._both(1):
            async with self.harness() as h:
                await line(h, "a")
                await h.broker.send(h.other_queue, [draft(h, "b", key="k")])
                await lease(h, throttle=throttle(h))

                leases = await h.broker.lease(
                    h.other_queue, limit=1, duration=60, holder="w", throttle=throttle(h)
                )

                assert ["b"] == ids(leases)

    async def test_a_dropped_queue_begins_anew(self) -> None:
        for throttle in self._both(1):
            async with self.harness() as h:
                await line(h, "b", "a")
                await lease(h, throttle=throttle(h))
                assert [] == await lease(h, throttle=throttle(h))

                await h.broker.drop(h.queue)
                await line(h, "b", "a")

                assert ["b"] == ids(await lease(h, throttle=throttle(h)))

    async def test_when_a_rate_allows_the_next_it_is_heard(self) -> None:
        for throttle in self._both(1, units=5):
            async with self.harness() as h:
                await line(h, "b", "a")
                await lease(h, 1, throttle=throttle(h))

                async with running(fetch(h, throttle(h))) as worker:
                    assert "a" == await soon(h, worker, "wait should end when the rate allows it")

    def _both(self, times: int, units: float = LONG) -> list[Throttling]:
        """That rate for a whole queue, and for each key of it."""
        return [
            lambda h: Throttle(per_key=None, rate=rate(h, times, units)),
            lambda h: Throttle(per_key=None, key_rate=rate(h, times, units)),
        ]
