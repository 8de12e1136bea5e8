"""`aclose` and `clone`: what the end of a broker object means, and what it leaves alone."""

from __future__ import annotations

from bee_core.disposition import Delete
from bee_core.errors import BrokerClosed
from bee_core.message import Settlement
from bee_core.testing.conformance.guards import verbs
from bee_core.testing.conformance.harness import Conformance
from bee_core.testing.conformance.steps import draft, end, ids, lease, refuses, send


class Closing(Conformance):
    """A broker object ends; the store does not."""

    async def test_after_closing_every_verb_says_so(self) -> None:
        async with self.harness() as h:
            clone = h.broker.clone()
            await clone.aclose()

            for verb, call in {**verbs(clone, h.queue), "queues": clone.queues}.items():
                with refuses(BrokerClosed, verb):
                    await call()

    async def test_closing_twice_is_harmless(self) -> None:
        async with self.harness() as h:
            clone = h.broker.clone()

            await clone.aclose()
            await clone.aclose()

            assert [] == await lease(h)

    async def test_a_broker_that_was_never_used_can_be_closed(self) -> None:
        async with self.harness() as h:
            async with h.broker.clone() as clone:
                pass

            with refuses(BrokerClosed):
                await clone.stats(h.queue)

    async def test_closing_a_clone_leaves_the_first_open(self) -> None:
        async with self.harness() as h:
            async with h.broker.clone() as clone:
                await clone.send(h.queue, [draft(h, "a")])

            assert ["a"] == ids(await lease(h))

    async def test_a_clone_outlives_the_one_it_came_from(self) -> None:
        async with self.harness() as h:
            parent = h.broker.clone()
            await parent.send(h.queue, [draft(h, "a")])
            child = parent.clone()
            await parent.aclose()

            async with child:
                leases = await child.lease(h.queue, limit=1, duration=60, holder="w")
                lost = await child.settle(h.queue, [Settlement(leases[0].receipt, Delete())])

            assert (["a"], set()) == (ids(leases), lost)

    async def test_what_a_closed_broker_held_stays_held(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            async with h.broker.clone() as clone:
                (held,) = await clone.lease(h.queue, limit=1, duration=60, holder="w")

            assert [] == await lease(h)
            assert await end(h, held)
