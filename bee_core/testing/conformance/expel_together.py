"""`expel` and `adopt` while others work on the queue, and wait for keys."""

from __future__ import annotations

import asyncio

from bee_core.disposition import Delete
from bee_core.message import Settlement
from bee_core.stored import State
from bee_core.testing.conformance.foreign import everything, expel, rich
from bee_core.testing.conformance.harness import Conformance
from bee_core.testing.conformance.keys import in_turn, line
from bee_core.testing.conformance.steps import (
    Counts,
    clones,
    counts,
    end,
    ids,
    lease,
    lease_one,
    look,
    running,
    send,
    soon,
)
from bee_core.testing.conformance.waiting import fetch


class ExpellingTogether(Conformance):
    """While others work on the queue, and wait for keys."""

    async def test_one_that_waits_for_its_key_is_expelled(self) -> None:
        async with self.harness() as h:
            await line(h, "d", "c", "b", "a")
            held = await lease_one(h)
            assert [] == await lease(h)  # the others are passed over
            seen = {one.id: one for one in await everything(h, State.READY)}

            assert [] == await expel(h, seen["c"])

            await end(h, held)
            assert ["b", "a"] == await in_turn(h)

    async def test_the_next_of_its_key_is_looked_at(self) -> None:
        async with self.harness() as h:
            await line(h, "d", "c", "b")
            held = await lease_one(h)
            assert [] == await lease(h)
            await end(h, held)  # c stands in the line again, b does not
            (seen,) = [one for one in await everything(h, State.READY) if one.id == "c"]

            assert [] == await expel(h, seen)

            assert ["b"] == await in_turn(h)

    async def test_who_waits_hears_of_the_next_of_its_key(self) -> None:
        async with self.harness() as h:
            await line(h, "d", "c", "b")
            held = await lease_one(h)
            assert [] == await lease(h)
            await h.broker.pause(h.queue)
            await end(h, held)
            seen = await look(h, "c")
            async with running(fetch(h)) as worker:
                await h.advance(1)
                await expel(h, seen)
                await h.broker.resume(h.queue)

                assert "b" == await soon(h, worker, "the next of the key should come")

    async def test_all_of_a_key_are_expelled(self) -> None:
        async with self.harness() as h:
            await line(h, "d", "c", "b", "a")
            held = await lease_one(h)
            assert [] == await lease(h)

            assert [] == await expel(h, *await everything(h, State.READY))

            assert Counts(leased=1) == await counts(h)
            await end(h, held)
            await line(h, "x", "y")
            assert ["x", "y"] == await in_turn(h)

    async def test_each_message_is_either_leased_or_expelled(self) -> None:
        async with self.harness() as h, clones(h, 4) as brokers:
            await send(h, *(f"{n}" for n in range(200)))
            seen = await everything(h, State.READY)

            async def work(n: int) -> set[str]:
                found: set[str] = set()
                for _ in range(20):
                    leases = await brokers[n].lease(h.queue, limit=7, duration=60, holder="w")
                    ends = [Settlement(held.receipt, Delete()) for held in leases]
                    assert set() == await brokers[n].settle(h.queue, ends)
                    found |= set(ids(leases))
                return found

            async def clear(n: int) -> set[str]:
                mine = seen[::-1]
                found: set[str] = set()
                for at in range(0, len(mine), 10):
                    batch = mine[at : at + 10]
                    left = {one.id for one in await brokers[n].expel(h.queue, batch)}
                    found |= set(ids(batch)) - left
                return found

            parts = await asyncio.gather(work(0), work(1), clear(2), clear(3))
            found = [id for part in parts for id in part]

            assert len(found) == len(set(found))
            assert 200 == len(found) + (await counts(h)).ready

    async def test_of_many_who_adopt_the_same_one_does(self) -> None:
        async with self.harness() as h, clones(h, 4) as brokers:
            given = [await rich(h, "a", key=None), await rich(h, "b", State.ARCHIVED)]

            left = await asyncio.gather(*(one.adopt(h.queue, given) for one in brokers))

            assert ["a", "a", "a", "b", "b", "b"] == sorted(one.id for some in left for one in some)
            assert Counts(ready=1) == await counts(h)
            assert ["b"] == ids(await everything(h, State.ARCHIVED))
