"""A successor whose message goes on instead of ending is merged into it, field by field."""

from __future__ import annotations

from bee_core.disposition import Disposition, Reschedule
from bee_core.message import ZERO, Counters, RunAt, Update
from bee_core.stored import State
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


class Merged(Conformance):
    """After Reschedule, and when the lease is taken over, both become one message."""

    async def test_a_successor_is_merged_into_a_message_that_is_repeated(self) -> None:
        ways: list[Disposition] = [Reschedule(), Reschedule(front=True), Reschedule(delay=60)]
        for way in ways:
            async with self.harness() as h:
                await send(h, draft(h, "a", b"old", priority=1, headers={"n": "1"}))
                held = await lease_one(h)
                before = await look(h, "a")
                change = draft(h, "a", b"new", priority=2, headers={"n": "2"}, if_taken=Update())
                await send(h, change)

                assert await end(h, held, way, counters=Counters(errors=1))
                after = await look(h, "a")

                assert (State.READY, b"new", 2) == (after.state, after.body, after.priority)
                assert {"n": "2"} == dict(after.headers)
                assert ZERO == after.counters
                assert before.incarnation == after.incarnation
                assert Counts(ready=1) == await counts(h)

    async def test_a_merge_leaves_what_it_was_not_told_to_change(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", b"old", priority=1, headers={"n": "1"}))
            held = await lease_one(h)
            rule = Update(payload=False, policy=False, run_at="never")
            change = draft(h, "a", b"new", priority=2, headers={"n": "2"}, if_taken=rule)
            await send(h, change)

            await end(h, held, Reschedule(), counters=Counters(errors=1))
            stored = await look(h, "a")

            assert (b"old", 1, {"n": "1"}) == (stored.body, stored.priority, dict(stored.headers))
            assert Counters(deliveries=1, errors=1) == stored.counters
            assert Counts(ready=1) == await counts(h)

    async def test_a_merge_into_a_repeat_follows_the_rule_for_the_time(self) -> None:
        assert State.READY is await self._repeated("always", repeat=LONG, successor=0)
        assert State.DELAYED is await self._repeated("always", repeat=0, successor=LONG)
        assert State.DELAYED is await self._repeated("never", repeat=LONG, successor=0)
        assert State.READY is await self._repeated("never", repeat=0, successor=LONG)
        assert State.DELAYED is await self._repeated("if_later", repeat=LONG, successor=0)
        assert State.DELAYED is await self._repeated("if_later", repeat=0, successor=LONG)
        assert State.READY is await self._repeated("if_earlier", repeat=LONG, successor=0)
        assert State.READY is await self._repeated("if_earlier", repeat=0, successor=LONG)

    async def _repeated(self, run_at: RunAt, *, repeat: float, successor: float) -> State:
        """The state of a message that was repeated after `repeat` and had a successor."""
        async with self.harness() as h:
            await send(h, "a")
            held = await lease_one(h)
            await update(h, "a", after=successor, rule=Update(run_at=run_at))

            await end(h, held, Reschedule(delay=repeat * h.unit))

            assert 0 == (await counts(h)).blocked
            return (await look(h, "a")).state

    async def test_a_merge_at_the_front_keeps_the_place_or_goes_to_the_back(self) -> None:
        assert ["b", "a"] == await self._to_the_front("always")
        assert ["a", "b"] == await self._to_the_front("never")
        assert ["b", "a"] == await self._to_the_front("if_later")
        assert ["a", "b"] == await self._to_the_front("if_earlier")

    async def _to_the_front(self, run_at: RunAt) -> list[str]:
        """The order after the first of two messages was given back and had a successor."""
        async with self.harness() as h:
            await send(h, "a", "b")
            held = await lease_one(h)
            await h.advance(1)
            await update(h, "a", rule=Update(run_at=run_at))

            await end(h, held, Reschedule(front=True))

            return ids(await lease(h))

    async def test_a_successor_is_merged_when_the_lease_is_taken_over(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", b"old", headers={"n": "1"}))
            stale = await lapse_one(h)
            before = await look(h, "a")
            await send(h, draft(h, "a", b"new", headers={"n": "2"}, if_taken=Update()))

            held = await lease_one(h)

            assert (b"new", {"n": "2"}) == (held.body, dict(held.headers))
            assert Counters(deliveries=1) == held.counters
            assert before.incarnation == (await look(h, "a")).incarnation
            assert Counts(leased=1) == await counts(h)
            assert not await end(h, stale)

    async def test_a_merge_at_take_over_counts_the_stall_like_any_other(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            await lapse_one(h)
            await update(h, "a", rule=Update(reset_counts=False))

            assert Counters(deliveries=2, stalls=1) == (await lease_one(h)).counters

    async def test_a_merge_at_take_over_may_make_the_message_due_later(self) -> None:
        for run_at in ("always", "if_later"):
            async with self.harness() as h:
                await send(h, "a", "b")
                stale = await lapse_one(h)
                rule = Update(run_at=run_at, reset_counts=False)
                await update(h, "a", after=LONG, rule=rule)

                taken = ids(await lease(h))
                stored = await look(h, "a")

                assert ["b"] == taken
                assert (State.DELAYED, b"new") == (stored.state, stored.body)
                assert Counters(deliveries=1, stalls=1) == stored.counters
                assert not await end(h, stale)
                assert Counts(delayed=1, leased=1) == await counts(h)

    async def test_a_merge_at_take_over_keeps_the_place_or_goes_to_the_back(self) -> None:
        assert ["b", "a"] == await self._taken_over("always")
        assert ["a", "b"] == await self._taken_over("never")
        assert ["b", "a"] == await self._taken_over("if_later")
        assert ["a", "b"] == await self._taken_over("if_earlier")

    async def test_one_that_gets_a_key_at_take_over_comes_before_those_behind_it(self) -> None:
        async with self.harness() as h:
            await send(h, "a", draft(h, "b", key="k"), "c")
            await lapse_one(h)
            await send(h, draft(h, "a", key="k", if_taken=Update(run_at="never")))

            assert ["a", "c"] == ids(await lease(h))

    async def _taken_over(self, run_at: RunAt) -> list[str]:
        """The order after the lease of the first of two messages ran out and had a successor."""
        async with self.harness() as h:
            await send(h, "a", "b")
            await lapse_one(h)
            await update(h, "a", rule=Update(run_at=run_at))

            return ids(await lease(h))
