"""The blocked successor: an Update that met a held message waits for the lease to end."""

from __future__ import annotations

from bee_core.disposition import Archive, Delete, Disposition, Reschedule, Terminal
from bee_core.errors import IdTaken
from bee_core.message import ZERO, Counters, Reject, RunAt, Sent, State, Update
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
    refuses,
    send,
    update,
)

EVERY_RULE: list[RunAt] = ["always", "never", "if_later", "if_earlier"]
EVERY_END: list[Terminal] = [Delete(), Archive()]


class Blocked(Conformance):
    """How a successor comes about, and how it is changed while it waits."""

    async def test_updating_a_held_message_makes_a_successor(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", b"old"))
            held = await lease_one(h)
            before = await look(h, "a")

            assert Sent.BLOCKED is await update(h, "a")

            assert before == await look(h, "a")
            assert Counts(leased=1, blocked=1) == await counts(h)
            assert await extend(h, held)
            assert await end(h, held)

    async def test_a_successor_is_not_given_out_while_the_first_is_held(self) -> None:
        for rule in EVERY_RULE:
            async with self.harness() as h:
                await send(h, "a")
                await lease_one(h)

                await update(h, "a", rule=Update(run_at=rule))

                assert [] == await lease(h)

    async def test_a_lease_that_ran_out_still_blocks_until_it_is_taken_over(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", b"old"))
            late = await lapse_one(h)

            assert Sent.BLOCKED is await update(h, "a")

            assert b"old" == (await look(h, "a")).body
            assert await end(h, late)
            assert b"new" == (await lease_one(h)).body

    async def test_there_is_only_one_successor(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            held = await lease_one(h)

            sent = [await update(h, "a", body) for body in (b"1", b"2", b"3")]

            assert [Sent.BLOCKED] * 3 == sent
            assert Counts(leased=1, blocked=1) == await counts(h)
            await end(h, held)
            assert [b"3"] == [one.body for one in await lease(h)]

    async def test_a_successor_is_changed_field_by_field(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            held = await lease_one(h)
            first = draft(h, "a", b"1", priority=1, headers={"n": "1"}, if_taken=Update())
            await send(h, first)

            body = Update(policy=False, run_at="never")
            await send(h, draft(h, "a", b"2", priority=2, headers={"n": "2"}, if_taken=body))
            policy = Update(payload=False, run_at="never")
            await send(h, draft(h, "a", b"3", priority=3, headers={"n": "3"}, if_taken=policy))
            await end(h, held)
            stored = await look(h, "a")

            assert (b"2", 3, {"n": "3"}) == (stored.body, stored.priority, dict(stored.headers))

    async def test_the_time_of_a_successor_is_changed_by_the_same_rules(self) -> None:
        assert State.DELAYED is await self._joined("always", old=0, new=LONG)
        assert State.READY is await self._joined("always", old=LONG, new=0)
        assert State.READY is await self._joined("never", old=0, new=LONG)
        assert State.DELAYED is await self._joined("never", old=LONG, new=0)
        assert State.DELAYED is await self._joined("if_later", old=0, new=LONG)
        assert State.DELAYED is await self._joined("if_later", old=LONG, new=0)
        assert State.READY is await self._joined("if_earlier", old=0, new=LONG)
        assert State.READY is await self._joined("if_earlier", old=LONG, new=0)

    async def _joined(self, run_at: RunAt, *, old: float, new: float) -> State:
        """The state of a successor, once free, that was due after `old` and then updated."""
        async with self.harness() as h:
            await send(h, "a")
            held = await lease_one(h)
            await update(h, "a", after=old)

            await update(h, "a", after=new, rule=Update(run_at=run_at))
            await end(h, held)

            return (await look(h, "a")).state

    async def test_a_successor_remembers_every_field_it_was_told_to_change(self) -> None:
        nothing = Update(payload=False, policy=False, run_at="never", reset_counts=False)
        async with self.harness() as h:
            await send(h, draft(h, "a", b"old", headers={"n": "0"}))
            held = await lease_one(h)

            rules = [
                Update(policy=False, run_at="never", reset_counts=False),
                Update(payload=False, run_at="never"),
                Update(payload=False, policy=False, run_at="always"),
                Update(payload=False, policy=False, run_at="never", reset_counts=True),
                nothing,
            ]
            for n, rule in enumerate(rules, 1):
                change = draft(h, "a", b"%d" % n, headers={"n": f"{n}"}, if_taken=rule, after=LONG)
                await send(h, change)
            await end(h, held, Reschedule())
            stored = await look(h, "a")

            assert (b"1", {"n": "2"}) == (stored.body, dict(stored.headers))
            assert (State.DELAYED, ZERO) == (stored.state, stored.counters)

    async def test_keeping_leaves_the_successor_as_it_is(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            held = await lease_one(h)
            await update(h, "a", b"successor")

            sent = await send(h, draft(h, "a", b"kept"))
            with refuses(IdTaken):
                await send(h, draft(h, "a", b"refused", if_taken=Reject()))
            await end(h, held)

            assert [Sent.KEPT] == sent
            assert [b"successor"] == [one.body for one in await lease(h)]


class Released(Conformance):
    """After Delete, Archive or cancel the successor becomes a fresh message."""

    async def test_a_successor_is_freed_when_the_first_has_ended(self) -> None:
        for way in EVERY_END:
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
                assert (ZERO, None, None) == (after.counters, after.note, after.holder)
                assert before.incarnation < after.incarnation
                assert Counts(ready=1) == await counts(h)

    async def test_a_successor_is_freed_when_the_first_is_cancelled(self) -> None:
        for to in EVERY_END:
            async with self.harness() as h:
                await send(h, draft(h, "a", b"old"))
                held = await lease_one(h)
                before = await look(h, "a")
                await update(h, "a")

                assert set() == await h.broker.cancel(h.queue, ["a"], to=to)
                after = await look(h, "a")

                assert (State.READY, b"new", ZERO) == (after.state, after.body, after.counters)
                assert before.incarnation < after.incarnation
                assert not await end(h, held)
                assert Counts(ready=1) == await counts(h)

    async def test_a_successor_is_freed_whatever_its_rule(self) -> None:
        for run_at in EVERY_RULE:
            async with self.harness() as h:
                await send(h, draft(h, "a", b"old", headers={"n": "1"}))
                held = await lease_one(h)
                rule = Update(payload=False, policy=False, run_at=run_at, reset_counts=False)
                await send(h, draft(h, "a", b"new", headers={"n": "2"}, if_taken=rule))

                await end(h, held, counters=Counters(errors=1))
                fresh = await lease_one(h)

                assert (b"new", {"n": "2"}) == (fresh.body, dict(fresh.headers))
                assert Counters(deliveries=1) == fresh.counters

    async def test_a_successor_is_due_when_it_asked_to_be(self) -> None:
        for run_at in EVERY_RULE:
            async with self.harness() as h:
                await send(h, "a")
                held = await lease_one(h)
                await update(h, "a", after=LONG, rule=Update(run_at=run_at))

                await end(h, held)
                stored = await look(h, "a")

                assert State.DELAYED is stored.state
                assert 1 > abs(stored.due_at - stored.sent_at - LONG * h.unit) / h.unit

    async def test_the_delay_of_a_successor_counts_from_its_own_sending(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            held = await lease_one(h)
            await update(h, "a", after=SHORT)
            await h.advance(2 * SHORT)

            await end(h, held)

            assert [b"new"] == [one.body for one in await lease(h)]

    async def test_a_successor_is_freed_once(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            held = await lease_one(h)
            await update(h, "a")

            await end(h, held)
            again = await end(h, held)
            await end(h, await lease_one(h))

            assert not again
            assert Counts() == await counts(h)

    async def test_a_lost_lease_does_not_free_the_successor(self) -> None:
        for way in EVERY_END:
            async with self.harness() as h:
                await send(h, "a")
                stale = await lapse_one(h)
                await lease_one(h)
                await update(h, "a")

                assert not await end(h, stale, way)

                assert Counts(leased=1, blocked=1) == await counts(h)

    async def test_a_freed_successor_can_have_a_successor(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", b"1"))
            bodies = []

            for body in (b"2", b"3", b"4"):
                held = await lease_one(h)
                bodies.append(held.body)
                assert Sent.BLOCKED is await update(h, "a", body)
                await end(h, held)

            assert [b"1", b"2", b"3"] == bodies
            assert Counts(ready=1) == await counts(h)


class Merged(Conformance):
    """After Reschedule, or when the lease is taken over, the successor becomes part of the first."""

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

    async def _taken_over(self, run_at: RunAt) -> list[str]:
        """The order after the lease of the first of two messages ran out and had a successor."""
        async with self.harness() as h:
            await send(h, "a", "b")
            await lapse_one(h)
            await update(h, "a", rule=Update(run_at=run_at))

            return ids(await lease(h))
