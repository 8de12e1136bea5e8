"""`cancel`: a message is taken away, from whoever waits for it or holds it."""

from __future__ import annotations

from bee_core.disposition import Archive, Delete, Reschedule, Terminal
from bee_core.message import Counters, Note, Sent
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
    ids,
    lapse_one,
    lease,
    lease_one,
    look,
    send,
    update,
)

EITHER: list[Terminal] = [Delete(), Archive()]


class Cancelling(Conformance):
    """Ready, delayed, leased or blocked."""

    async def test_a_cancelled_message_is_never_given_out(self) -> None:
        for to in EITHER:
            async with self.harness() as h:
                await send(h, "a", "b", draft(h, "c", after=SHORT), draft(h, "d", after=SHORT))

                missing = await h.broker.cancel(h.queue, ["a", "c"], to=to)
                await h.advance(2 * SHORT)

                assert set() == missing
                assert ["b", "d"] == ids(await lease(h))

    async def test_a_message_cancelled_to_delete_leaves_nothing(self) -> None:
        async with self.harness() as h:
            await send(h, "a")

            await h.broker.cancel(h.queue, ["a"], to=Delete())

            assert None is await h.broker.get(h.queue, "a")
            assert {} == dict((await h.broker.stats(h.queue)).archived)

    async def test_a_message_cancelled_to_archive_is_kept_as_cancelled(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", b"hello", priority=2, headers={"k": "v"}))
            await end(h, await lease_one(h), Reschedule(), counters=Counters(errors=1))

            await h.broker.cancel(h.queue, ["a"], to=Archive())
            stored = await look(h, "a")

            assert (State.ARCHIVED, b"hello", 2) == (stored.state, stored.body, stored.priority)
            assert {"k": "v"} == dict(stored.headers)
            assert Counters(deliveries=1, errors=1) == stored.counters
            assert Note("cancelled") == stored.note
            assert {"cancelled": 1} == dict((await h.broker.stats(h.queue)).archived)

    async def test_cancelling_names_the_ids_that_had_nothing_to_cancel(self) -> None:
        async with self.harness() as h:
            await send(h, "archived")
            await end(h, await lease_one(h), Archive())
            await send(h, "a", "b")

            missing = await h.broker.cancel(h.queue, ["a", "x", "archived"], to=Delete())
            again = await h.broker.cancel(h.queue, ["a"], to=Delete())

            assert ({"x", "archived"}, {"a"}) == (missing, again)
            assert Counts(ready=1) == await counts(h)
            assert State.ARCHIVED is (await look(h, "archived")).state

    async def test_cancelling_in_one_queue_leaves_another_alone(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            await h.broker.send(h.other_queue, [draft(h, "a")])

            await h.broker.cancel(h.queue, ["a"], to=Delete())

            assert Counts(ready=1) == await counts(h, h.other_queue)

    async def test_the_holder_of_a_cancelled_message_has_lost_it(self) -> None:
        for to in EITHER:
            async with self.harness() as h:
                await send(h, "a")
                held = await lease_one(h)

                assert set() == await h.broker.cancel(h.queue, ["a"], to=to)

                assert not await extend(h, held)
                assert not await end(h, held, Reschedule(), then=[draft(h, "b")])
                assert Counts() == await counts(h)

    async def test_a_message_cancelled_while_it_was_held_does_not_come_back(self) -> None:
        for to in EITHER:
            async with self.harness() as h:
                await send(h, "a")
                await lease_one(h, units=SHORT)

                await h.broker.cancel(h.queue, ["a"], to=to)
                await h.advance(2 * SHORT)

                assert [] == await lease(h)

    async def test_a_message_cancelled_while_it_was_held_is_archived_once(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            held = await lease_one(h, holder="alice")

            await h.broker.cancel(h.queue, ["a"], to=Archive())
            await end(h, held, Archive(), note=Note("succeeded"))
            stored = await look(h, "a")

            assert (Note("cancelled"), "alice") == (stored.note, stored.holder)
            assert {"cancelled": 1} == dict((await h.broker.stats(h.queue)).archived)

    async def test_a_message_whose_lease_ran_out_can_be_cancelled(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            late = await lapse_one(h)

            assert set() == await h.broker.cancel(h.queue, ["a"], to=Delete())

            assert [] == await lease(h)
            assert not await end(h, late)

    async def test_a_held_message_can_be_spared(self) -> None:
        for to in EITHER:
            async with self.harness() as h:
                await send(h, "held", "waiting")
                held = await lease_one(h)

                both = ["held", "waiting"]
                missing = await h.broker.cancel(h.queue, both, to=to, running=False)

                assert {"held"} == missing
                assert Counts(leased=1) == await counts(h)
                assert await end(h, held)

    async def test_sparing_a_held_message_still_cancels_its_successor(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            held = await lease_one(h)
            await update(h, "a")

            missing = await h.broker.cancel(h.queue, ["a"], to=Delete(), running=False)
            meanwhile = await counts(h)
            again = await h.broker.cancel(h.queue, ["a"], to=Delete(), running=False)

            assert (set(), {"a"}) == (missing, again)
            assert Counts(leased=1) == meanwhile
            assert await end(h, held)
            assert Counts() == await counts(h)

    async def test_a_cancelled_successor_can_be_archived(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", b"old"))
            held = await lease_one(h)
            first = await look(h, "a")
            await update(h, "a", b"new")

            await h.broker.cancel(h.queue, ["a"], to=Archive(), running=False)
            await end(h, held)
            stored = await look(h, "a")

            assert (State.ARCHIVED, b"new") == (stored.state, stored.body)
            assert (Note("cancelled"), Counters()) == (stored.note, stored.counters)
            assert first.incarnation < stored.incarnation

    async def test_a_cancelled_id_is_free_again(self) -> None:
        for to in EITHER:
            async with self.harness() as h:
                await send(h, "waiting", "held", draft(h, "delayed", after=LONG))
                await h.broker.cancel(h.queue, ["waiting"], to=to)
                await lease_one(h)
                await h.broker.cancel(h.queue, ["held", "delayed"], to=to)

                sent = await send(h, "waiting", "held", "delayed")

                assert [Sent.CREATED] * 3 == sent
                assert ["waiting", "held", "delayed"] == ids(await lease(h))
