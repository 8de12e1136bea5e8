"""`wait`: a hint that something may be ready. It may come early; it may not be lost.

The tests wait as a worker does: lease, and if there is nothing, wait and lease again. So a
wait that returns early passes, and one that sleeps through what it should have heard fails.
"""

from __future__ import annotations

import asyncio

from bee_core.broker import Store
from bee_core.disposition import Archive, Delete, Reschedule
from bee_core.message import THROTTLE, Throttle
from bee_core.testing.conformance.archive import archive
from bee_core.testing.conformance.harness import Conformance, Harness
from bee_core.testing.conformance.steps import (
    LONG,
    SHORT,
    Counts,
    clones,
    counts,
    draft,
    end,
    ids,
    lease,
    lease_one,
    running,
    send,
    soon,
    update,
)


class Waiting(Conformance):
    """Who sleeps is woken, or wakes by itself."""

    async def test_a_wait_is_over_after_its_timeout(self) -> None:
        async with self.harness() as h, running(wait(h, SHORT)) as waiting:
            await soon(h, waiting, "wait should return after its timeout")

    async def test_a_wait_without_time_is_over_at_once(self) -> None:
        async with self.harness() as h, running(wait(h, 0)) as waiting:
            await soon(h, waiting, "wait should return after its timeout")

    async def test_a_wait_is_over_if_something_is_ready_already(self) -> None:
        async with self.harness() as h:
            await send(h, "a")

            async with running(wait(h)) as waiting:
                await soon(h, waiting, "wait should see what is ready already")

    async def test_a_message_sent_meanwhile_is_heard(self) -> None:
        async with self.harness() as h, running(fetch(h)) as worker:
            await h.advance(1)

            await send(h, "a")

            assert "a" == await soon(h, worker, "a send should wake who waits")

    async def test_a_message_sent_by_a_clone_is_heard(self) -> None:
        async with self.harness() as h, running(fetch(h)) as worker, h.broker.clone() as clone:
            await h.advance(1)

            await clone.send(h.queue, [draft(h, "a")])

            assert "a" == await soon(h, worker, "a send should wake who waits")

    async def test_a_message_sent_from_another_thread_is_heard(self) -> None:
        async with self.harness() as h, running(fetch(h)) as worker:
            await h.advance(1)

            clone = h.broker.clone()
            await asyncio.to_thread(asyncio.run, send_and_close(h, clone, "a"))

            assert "a" == await soon(h, worker, "a send should wake who waits")

    async def test_a_message_sent_meanwhile_is_heard_behind_a_delayed_one(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "late", after=LONG))

            async with running(fetch(h)) as worker:
                await h.advance(1)
                await send(h, "a")

                assert "a" == await soon(h, worker, "a send should wake who waits")

    async def test_a_message_that_falls_due_is_heard(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", after=5))

            async with running(fetch(h)) as worker:
                assert "a" == await soon(h, worker, "wait should end when a message falls due")

    async def test_a_delayed_message_sent_meanwhile_is_heard_when_it_falls_due(self) -> None:
        async with self.harness() as h, running(fetch(h)) as worker:
            await h.advance(1)

            await send(h, draft(h, "a", after=5))

            assert "a" == await soon(h, worker, "wait should end when a message falls due")

    async def test_a_lease_that_runs_out_is_heard(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            await lease_one(h, units=5)

            async with running(fetch(h)) as worker:
                assert "a" == await soon(h, worker, "wait should end when a lease runs out")

    async def test_a_repeated_message_is_heard(self) -> None:
        for way in (Reschedule(), Reschedule(front=True), Reschedule(delay=0.001)):
            async with self.harness() as h:
                await send(h, "a")
                held = await lease_one(h)

                async with running(fetch(h)) as worker:
                    await h.advance(1)
                    await end(h, held, way)

                    assert "a" == await soon(h, worker, f"{way} should wake who waits")

    async def test_what_follows_a_settled_message_is_heard(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            held = await lease_one(h)

            async with running(fetch(h)) as worker:
                await h.advance(1)
                await end(h, held, then=[draft(h, "b")])

                assert "b" == await soon(h, worker, "what follows should wake who waits")

    async def test_a_successor_that_is_freed_is_heard(self) -> None:
        for cancelled in (False, True):
            async with self.harness() as h:
                await send(h, "a")
                held = await lease_one(h)
                await update(h, "a")

                async with running(fetch(h)) as worker:
                    await h.advance(1)
                    if cancelled:
                        await h.broker.cancel(h.queue, ["a"], to=Delete())
                    else:
                        await end(h, held, Archive())

                    assert "a" == await soon(h, worker, "a successor should wake who waits")

    async def test_a_message_brought_forward_is_heard(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", after=LONG))

            async with running(fetch(h)) as worker:
                await h.advance(1)
                await update(h, "a")

                assert "a" == await soon(h, worker, "an update should wake who waits")

    async def test_a_restored_message_is_heard(self) -> None:
        async with self.harness() as h:
            await archive(h, "a")

            async with running(fetch(h)) as worker:
                await h.advance(1)
                await h.broker.restore(h.queue, ["a"])

                assert "a" == await soon(h, worker, "restore should wake who waits")

    async def test_the_end_of_a_pause_is_heard(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b")
            await h.broker.pause(h.queue)

            async with running(fetch(h)) as one, running(fetch(h)) as other:
                await h.advance(1)
                await h.broker.resume(h.queue)

                woken = [
                    await soon(h, task, "resume should wake who waits") for task in (one, other)
                ]
                assert ["a", "b"] == sorted(woken)

    async def test_all_who_wait_hear_that_a_leased_message_was_cancelled(self) -> None:
        async with self.harness() as h, clones(h, 2) as (one, other):
            await send(h, "a")
            await lease_one(h)
            timeout = LONG * h.unit

            async with (
                running(one.wait(h.queue, timeout=timeout)) as first,
                running(other.wait(h.queue, timeout=timeout)) as second,
            ):
                await h.advance(1)
                assert set() == await h.broker.cancel(h.queue, ["a"], to=Delete())

                await soon(h, first, "its holder may be among those who wait")
                await soon(h, second, "its holder may be among those who wait")

    async def test_as_many_messages_wake_as_many_waiters(self) -> None:
        async with self.harness() as h, running(fetch(h)) as one, running(fetch(h)) as other:
            await h.advance(1)
            await send(h, "a", "b")

            woken = [await soon(h, task, "each should be woken") for task in (one, other)]
            assert ["a", "b"] == sorted(woken)

    async def test_who_takes_less_than_there_is_leaves_the_rest_to_be_heard(self) -> None:
        async with self.harness() as h:
            await send(h, *(draft(h, str(n), after=5) for n in range(3)))

            async with running(fetch(h)) as a, running(fetch(h)) as b, running(fetch(h)) as c:
                woken = [await soon(h, task, "each should be woken") for task in (a, b, c)]

                assert ["0", "1", "2"] == sorted(woken)

    async def test_who_waits_after_several_have_leased_at_once_wakes_when_something_is_due(
        self,
    ) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", after=5))
            await asyncio.gather(*(lease(h) for _ in range(16)))

            async with running(wait(h)) as waiting:
                await soon(h, waiting, "a message that is due should wake who waits")

    async def test_one_who_leaves_does_not_keep_from_another_that_something_is_due(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", after=5))
            assert [] == ids(await lease(h))

            async with running(wait(h)) as leaving, running(wait(h)) as staying:
                await h.advance(1)
                leaving.cancel()

                await soon(h, staying, "a message that is due should wake who waits")

    async def test_one_who_has_looked_and_leaves_does_not_either(self) -> None:
        async with self.harness() as h:
            assert [] == ids(await lease(h))

            async with running(wait(h)) as one, running(wait(h)) as other:
                await h.advance(1)
                await send(h, draft(h, "a", after=8))
                await h.advance(2)
                assert [] == ids(await lease(h))
                leaving, staying = (one, other) if one.done() else (other, one)
                leaving.cancel()

                await soon(h, staying, "a message that is due should wake who waits")

    async def test_a_wait_on_one_queue_does_not_use_up_the_wake_up_of_another(self) -> None:
        async with (
            self.harness() as h,
            running(h.broker.wait(h.other_queue, timeout=LONG * h.unit)),
            running(fetch(h)) as worker,
        ):
            await h.advance(1)
            await send(h, "a")

            assert "a" == await soon(h, worker, "a send should wake who waits")

    async def test_a_wait_can_be_cancelled(self) -> None:
        async with self.harness() as h, running(wait(h)) as waiting:
            await h.advance(1)

            begun = waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)

            assert begun == waiting.cancelled()

    async def test_a_wait_that_is_cancelled_takes_nothing_with_it(self) -> None:
        async with self.harness() as h:
            for n in range(3):
                async with running(wait(h)):
                    await h.advance(1)
                    await send(h, str(n))

            assert ["0", "1", "2"] == ids(await lease(h))
            assert Counts(leased=3) == await counts(h)

    async def test_a_wait_that_is_cancelled_leaves_its_wake_up_to_another(self) -> None:
        async with self.harness() as h:
            first = asyncio.create_task(wait(h))
            await h.advance(1)
            async with running(fetch(h)) as second:
                await h.advance(1)
                await send(h, "a")
                first.cancel()
                await asyncio.gather(first, return_exceptions=True)

                if first.cancelled():  # or else it was over already, and has heard it itself
                    assert "a" == await soon(h, second, "the wake-up went with who was cancelled")

    async def test_a_wait_that_was_cancelled_before_does_not_swallow_a_wake_up(self) -> None:
        async with self.harness() as h:
            async with running(wait(h)):
                await h.advance(1)

            async with running(fetch(h)) as worker:
                await h.advance(1)
                await send(h, "a")

                assert "a" == await soon(h, worker, "the wake-up went to nobody")

    async def test_a_wait_that_timed_out_before_does_not_swallow_a_wake_up(self) -> None:
        async with self.harness() as h:
            async with running(wait(h, SHORT)) as gone:
                await soon(h, gone, "wait should return after its timeout")

            async with running(fetch(h)) as worker:
                await h.advance(1)
                await send(h, "a")

                assert "a" == await soon(h, worker, "the wake-up went to nobody")


async def wait(h: Harness, units: float = LONG) -> None:
    """Wait once."""
    await h.broker.wait(h.queue, timeout=units * h.unit)


async def fetch(h: Harness, throttle: Throttle = THROTTLE) -> str:
    """The id of the next message, whenever it comes."""
    while not (leases := await lease(h, 1, throttle=throttle)):
        await wait(h)
        await asyncio.sleep(0)  # where wait never really waits, time must go on all the same
    return leases[0].receipt.id


async def send_and_close(h: Harness, broker: Store, id: str) -> None:
    """Use a broker in an event loop of its own."""
    async with broker:
        await broker.send(h.queue, [draft(h, id)])
