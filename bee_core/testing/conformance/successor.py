"""The blocked successor: an Update that met a held message waits for the lease to end."""

from __future__ import annotations

from bee_core.disposition import Archive, Delete, Reschedule, Terminal
from bee_core.errors import IdTaken
from bee_core.message import ZERO, Counters, Reject, RunAt, Sent, Update
from bee_core.stored import State
from bee_core.testing.conformance.harness import Conformance
from bee_core.testing.conformance.steps import (
    LONG,
    SHORT,
    Counts,
    counts,
    draft,
    end,
    extend,
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
                nothing,
                Update(policy=False, run_at="never", reset_counts=False),
                Update(payload=False, run_at="never"),
                Update(payload=False, policy=False, run_at="always"),
                Update(payload=False, policy=False, run_at="never", reset_counts=True),
                nothing,
            ]
            for n, rule in enumerate(rules):
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
