"""`if_taken`: what a send does when its id is live and waits. For held ones see `successor`."""

from __future__ import annotations

from bee_core.disposition import Archive, Reschedule
from bee_core.errors import IdTaken
from bee_core.message import ZERO, Counters, IfTaken, Reject, RunAt, Sent, Update
from bee_core.stored import State
from bee_core.testing.conformance.harness import Conformance, Harness
from bee_core.testing.conformance.steps import (
    LONG,
    Counts,
    counts,
    draft,
    end,
    ids,
    lease,
    lease_one,
    look,
    refuses,
    send,
    update,
)


class Identity(Conformance):
    """One id, one live message: keep it, refuse, or change it field by field."""

    async def test_a_refused_send_stores_nothing_of_its_batch(self) -> None:
        async with self.harness() as h:
            await send(h, "b", draft(h, "d", after=LONG))

            with refuses(IdTaken) as refusal:
                await send(h, "a", *(draft(h, id, if_taken=Reject()) for id in "bcd"), "e")

            assert (h.queue, {"b", "d"}) == (refusal.error.queue, set(refusal.error.ids))
            assert Counts(ready=1, delayed=1) == await counts(h)

    async def test_a_refused_send_changes_nothing_either(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", b"first"), "b")

            with refuses(IdTaken):
                change = draft(h, "a", b"second", if_taken=Update())
                await send(h, change, draft(h, "b", if_taken=Reject()))

            assert [b"first", b"body"] == [one.body for one in await lease(h)]

    async def test_a_held_id_is_refused_too(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            await lease_one(h)

            with refuses(IdTaken):
                await send(h, draft(h, "a", if_taken=Reject()))

            assert Counts(leased=1) == await counts(h)

    async def test_a_free_id_is_never_refused(self) -> None:
        async with self.harness() as h:
            await send(h, "archived")
            await end(h, await lease_one(h), Archive())

            batch = [draft(h, id, if_taken=Reject()) for id in ("new", "archived")]

            assert [Sent.CREATED] * 2 == await send(h, *batch)

    async def test_updating_a_free_id_creates_it(self) -> None:
        async with self.harness() as h:
            rule = Update(payload=False, policy=False, run_at="never")

            batch = draft(h, "a", b"hello", after=LONG, headers={"k": "v"}, if_taken=rule)
            sent = await send(h, batch)
            stored = await look(h, "a")

            assert [Sent.CREATED] == sent
            assert (State.DELAYED, b"hello") == (stored.state, stored.body)
            assert {"k": "v"} == dict(stored.headers)

    async def test_an_update_replaces_everything_unless_told_otherwise(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", b"old", priority=1, headers={"old": "1"}))
            await end(h, await lease_one(h), Reschedule(), counters=Counters(errors=1))
            before = await look(h, "a")

            change = draft(
                h, "a", b"new", after=LONG, priority=2, headers={"new": "2"}, if_taken=Update()
            )
            sent = await send(h, change)
            after = await look(h, "a")

            assert [Sent.UPDATED] == sent
            assert (State.DELAYED, b"new", 2) == (after.state, after.body, after.priority)
            assert {"new": "2"} == dict(after.headers)
            assert ZERO == after.counters
            assert before.incarnation == after.incarnation

    async def test_an_update_without_payload_leaves_the_body(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", b"old"))

            assert Sent.UPDATED is await update(h, "a", rule=Update(payload=False))

            assert b"old" == (await look(h, "a")).body

    async def test_an_update_without_policy_leaves_headers_and_priority(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", priority=1, headers={"old": "1"}))

            change = draft(h, "a", priority=2, headers={"new": "2"}, if_taken=Update(policy=False))
            await send(h, change)
            stored = await look(h, "a")

            assert (1, {"old": "1"}) == (stored.priority, dict(stored.headers))

    async def test_an_update_can_take_headers_away(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", headers={"old": "1"}))

            await update(h, "a")

            assert {} == dict((await look(h, "a")).headers)

    async def test_a_new_priority_takes_effect(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b", "c")

            rule = Update(run_at="never")
            await send(h, draft(h, "c", priority=1, if_taken=rule))
            await send(h, draft(h, "a", priority=-1, if_taken=rule))

            assert ["c", "b", "a"] == ids(await lease(h))

    async def test_counters_start_again_with_a_new_payload(self) -> None:
        assert ZERO == await self._counters_after(Update())

    async def test_counters_stay_with_the_old_payload(self) -> None:
        assert ZERO != await self._counters_after(Update(payload=False))

    async def test_counters_start_again_when_told_to(self) -> None:
        assert ZERO == await self._counters_after(Update(payload=False, reset_counts=True))

    async def test_counters_stay_when_told_to(self) -> None:
        assert ZERO != await self._counters_after(Update(reset_counts=False))

    async def _counters_after(self, rule: Update) -> Counters:
        """The counters of a message that had an error before it was updated."""
        async with self.harness() as h:
            await send(h, "a")
            await end(h, await lease_one(h), Reschedule(), counters=Counters(errors=1))

            await update(h, "a", rule=rule)

            found = (await look(h, "a")).counters
            assert found in (ZERO, Counters(deliveries=1, errors=1))
            return found

    async def test_run_at_always_replaces_the_time(self) -> None:
        assert State.DELAYED is await self._updated("always", old=0, new=LONG)
        assert State.READY is await self._updated("always", old=LONG, new=0)

    async def test_run_at_never_leaves_the_time(self) -> None:
        assert State.READY is await self._updated("never", old=0, new=LONG)
        assert State.DELAYED is await self._updated("never", old=LONG, new=0)

    async def test_run_at_if_later_only_puts_off(self) -> None:
        assert State.DELAYED is await self._updated("if_later", old=0, new=LONG)
        assert State.DELAYED is await self._updated("if_later", old=LONG, new=0)

    async def test_run_at_if_earlier_only_brings_forward(self) -> None:
        assert State.READY is await self._updated("if_earlier", old=0, new=LONG)
        assert State.READY is await self._updated("if_earlier", old=LONG, new=0)

    async def _updated(self, run_at: RunAt, *, old: float, new: float) -> State:
        """The state of a message that was due after `old` and updated to be due after `new`."""
        async with self.harness() as h:
            await send(h, draft(h, "a", after=old))

            assert Sent.UPDATED is await update(h, "a", after=new, rule=Update(run_at=run_at))
            stored = await look(h, "a")

            assert (State.READY is stored.state) == (["a"] == ids(await lease(h)))
            return stored.state

    async def test_times_are_compared_even_if_the_priorities_differ(self) -> None:
        async with self.harness() as h:
            for id, first, second in (("up", 300, 700), ("down", 700, 300)):
                await send(h, draft(h, id, after=first, priority=5))
                rule = Update(run_at="if_later" if second > first else "if_earlier")
                await send(h, draft(h, id, after=second, priority=-5, if_taken=rule))

            assert [700, 300] == [await _hundreds(h, id) for id in ("up", "down")]

    async def test_a_message_whose_time_is_replaced_goes_to_the_back(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b", "c")

            await update(h, "a", rule=Update(run_at="always"))

            assert ["b", "c", "a"] == ids(await lease(h))

    async def test_a_message_whose_time_is_left_keeps_its_place(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b", "c")
            await h.advance(1)

            await update(h, "a", rule=Update(run_at="never"))
            await update(h, "b", rule=Update(run_at="if_earlier"))

            assert ["a", "b", "c"] == ids(await lease(h))

    async def test_an_update_that_changes_nothing_still_says_updated(self) -> None:
        async with self.harness() as h:
            await send(h, "a")

            nothing = Update(payload=False, policy=False, run_at="never")

            assert Sent.UPDATED is await update(h, "a", rule=nothing)
            assert Counts(ready=1) == await counts(h)

    async def test_a_batch_may_keep_create_update_and_follow(self) -> None:
        async with self.harness() as h:
            await send(h, "held", "waiting", "kept")
            await lease_one(h)

            rules: dict[str, IfTaken] = {"held": Update(), "waiting": Update(), "new": Reject()}
            sent = await send(h, "kept", *(draft(h, id, if_taken=r) for id, r in rules.items()))

            assert [Sent.KEPT, Sent.BLOCKED, Sent.UPDATED, Sent.CREATED] == sent


async def _hundreds(h: Harness, id: str) -> int:
    """How long after it was sent the message is due, to the nearest hundred units."""
    stored = await look(h, id)
    return round((stored.due_at - stored.sent_at) / h.unit / 100) * 100
