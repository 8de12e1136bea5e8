"""Those that were passed over: they wait for their key out of the way, and none is forgotten."""

from __future__ import annotations

from bee_core.disposition import Archive, Delete, Disposition, Reschedule, Terminal
from bee_core.message import Sent, Throttle, Update
from bee_core.stored import State
from bee_core.testing.conformance.harness import Conformance
from bee_core.testing.conformance.keys import in_turn, line
from bee_core.testing.conformance.scan import pages
from bee_core.testing.conformance.steps import (
    LONG,
    SHORT,
    Counts,
    counts,
    draft,
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

EVERY_END: list[Terminal] = [Delete(), Archive()]
STAY = Update(payload=False, run_at="never", reset_counts=False)
"""An Update of headers, priority and key alone."""


class PassedOver(Conformance):
    """They wait, and come when it is their turn."""

    async def test_what_was_passed_over_is_ready(self) -> None:
        async with self.harness() as h:
            await line(h, "c", "b", "a")
            await h.advance(2)
            await lease(h)
            stats = await h.broker.stats(h.queue)

            assert State.READY is (await look(h, "a")).state
            assert Counts(ready=2, leased=1) == await counts(h)
            assert stats.oldest_due is not None
            assert 1.5 < stats.oldest_due / h.unit < 20

    async def test_what_was_passed_over_is_shown_behind_the_others(self) -> None:
        async with self.harness() as h:
            await line(h, "e", "d", "c")
            await send(h, "x")
            await lease(h)
            await send(h, "b", "a")

            for size in (1, 2, 100):
                assert ["b", "a", "d", "c"] == ids(await pages(h, State.READY, size))

    async def test_pages_show_those_of_many_keys_once_each(self) -> None:
        async with self.harness() as h:
            for key in "zyx":
                await line(h, *(f"{key}{n}" for n in range(4)), key=key)
            await lease(h)
            await send(h, "b", "a")

            found = ids(await pages(h, State.READY, 3))

            waiting = [f"{key}{n}" for key in "zyx" for n in range(1, 4)]
            assert ["b", "a"] == found[:2]
            assert sorted(waiting) == sorted(found[2:])

    async def test_a_thousand_that_wait_for_a_key_do_not_hide_who_is_behind_them(self) -> None:
        async with self.harness() as h:
            await line(h, *(f"{n}" for n in range(1000)))
            await send(h, "last")
            held = await lease_one(h)

            async with running(fetch(h)) as worker:
                assert "last" == await soon(h, worker, "a key that is held blocks the queue")

            await end(h, held)
            assert "1" == (await lease_one(h)).receipt.id

    async def test_what_waits_for_its_key_can_be_cancelled(self) -> None:
        for to in EVERY_END:
            async with self.harness() as h:
                await line(h, "c", "b", "a")
                (held,) = await lease(h)

                assert set() == await h.broker.cancel(h.queue, ["b"], to=to)

                assert [] == await lease(h)
                await end(h, held)
                assert ["a"] == await in_turn(h)

    async def test_when_the_next_of_a_key_is_cancelled_the_one_behind_it_comes(self) -> None:
        for to in EVERY_END:
            async with self.harness() as h:
                await line(h, "d", "c", "b", "a")
                (held,) = await lease(h)
                await end(h, held)

                await h.broker.cancel(h.queue, ["c", "b"], to=to)

                assert ["a"] == ids(await lease(h))

    async def test_when_a_holder_is_cancelled_with_those_behind_it_the_rest_comes(self) -> None:
        for wanted in (["d", "c", "b"], ["b", "c", "d"]):
            async with self.harness() as h:
                await line(h, "d", "c", "b", "a")
                await lease(h)

                assert set() == await h.broker.cancel(h.queue, wanted, to=Delete())

                assert ["a"] == ids(await lease(h))

    async def test_a_thousand_that_waited_and_were_purged_do_not_come_between(self) -> None:
        async with self.harness() as h:
            for start in (0, 500, 1000):
                await line(h, *(f"{n:04}" for n in range(start, start + 500)))
            (held,) = await lease(h)
            await h.broker.purge(h.queue)
            await line(h, "next")

            assert await end(h, held)

            assert ["next"] == ids(await lease(h))

    async def test_when_the_next_of_a_key_is_purged_the_key_is_free(self) -> None:
        async with self.harness() as h:
            await line(h, "d", "c", "b")
            (held,) = await lease(h)
            await end(h, held)

            assert 2 == await h.broker.purge(h.queue)
            await line(h, "c", "a")

            assert ["c", "a"] == await in_turn(h)

    async def test_when_the_next_of_a_key_is_put_off_the_one_behind_it_comes(self) -> None:
        async with self.harness() as h:
            await line(h, "c", "b", "a")
            (held,) = await lease(h)
            await end(h, held)

            await send(h, draft(h, "b", key="k", after=LONG, if_taken=Update()))

            assert ["a"] == ids(await lease(h))

    async def test_when_the_next_of_a_key_gets_another_the_one_behind_it_comes(self) -> None:
        async with self.harness() as h:
            await line(h, "c", "b", "a")
            (held,) = await lease(h)
            await end(h, held)

            await send(h, draft(h, "b", key="other", if_taken=STAY))

            assert ["b", "a"] == ids(await lease(h))

    async def test_when_the_next_of_a_key_has_to_give_way_none_is_forgotten(self) -> None:
        async with self.harness() as h:
            await line(h, "d", "c", "b")
            (held,) = await lease(h)
            await end(h, held)
            await send(h, draft(h, "urgent", key="k", priority=5))

            assert ["urgent", "c", "b"] == await in_turn(h)

    async def test_what_waits_for_its_key_comes_at_once_if_it_gets_another_or_none(self) -> None:
        for key in ("free", None):
            async with self.harness() as h:
                await line(h, "c", "b", "a")
                (held,) = await lease(h)

                (sent,) = await send(h, draft(h, "b", key=key, if_taken=STAY))
                (moved,) = await lease(h)

                assert (Sent.UPDATED, "b", key) == (sent, moved.receipt.id, moved.key)
                await end(h, held)
                assert ["a"] == ids(await lease(h))

    async def test_what_gets_a_key_that_is_held_has_to_wait_for_it(self) -> None:
        for before in (None, "free"):
            async with self.harness() as h:
                await line(h, "b")
                (held,) = await lease(h)
                await send(h, draft(h, "a", key=before))

                await send(h, draft(h, "a", key="k", if_taken=STAY))

                assert [] == await lease(h)
                await end(h, held)
                assert ["a"] == ids(await lease(h))

    async def test_a_message_keeps_its_key_if_its_policy_is_not_to_change(self) -> None:
        async with self.harness() as h:
            await line(h, "b", "a")
            (held,) = await lease(h)

            change = draft(h, "a", b"new", key="free", if_taken=Update(policy=False))
            await send(h, change)

            assert [] == await lease(h)
            assert "k" == (await look(h, "a")).key
            await end(h, held)
            assert [b"new"] == [one.body for one in await lease(h)]

    async def test_what_waits_for_its_key_can_be_made_urgent(self) -> None:
        async with self.harness() as h:
            await line(h, "d", "c", "b", "a")
            (held,) = await lease(h)

            await send(h, draft(h, "a", key="k", priority=5, if_taken=STAY))
            await end(h, held)

            assert ["a", "c", "b"] == await in_turn(h)

    async def test_what_waits_for_its_key_can_be_put_off(self) -> None:
        async with self.harness() as h:
            await line(h, "d", "c", "b", "a")
            (held,) = await lease(h)

            await send(h, draft(h, "c", key="k", after=LONG, if_taken=Update()))
            meanwhile = await counts(h)
            await send(h, draft(h, "b", key="k", after=SHORT, if_taken=Update()))
            await h.advance(2 * SHORT)
            await end(h, held)

            assert Counts(ready=2, delayed=1, leased=1) == meanwhile
            assert ["a", "b"] == await in_turn(h)
            assert Counts(delayed=1) == await counts(h)

    async def test_an_update_of_what_waits_does_not_free_the_key(self) -> None:
        async with self.harness() as h:
            await line(h, "c", "b", "a")
            await lease(h)

            for rule in (Update(), STAY, Update(policy=False, run_at="never")):
                await send(h, draft(h, "b", b"new", key="k", if_taken=rule))

                assert [] == await lease(h)

    async def test_purging_takes_those_that_wait_for_their_key(self) -> None:
        async with self.harness() as h:
            await line(h, "d", "c", "b")
            (held,) = await lease(h)

            assert 2 == await h.broker.purge(h.queue)
            await line(h, "a")

            assert Counts(ready=1, leased=1) == await counts(h)
            assert [] == await lease(h)
            await end(h, held)
            assert ["a"] == ids(await lease(h))

    async def test_dropping_a_queue_frees_its_keys(self) -> None:
        async with self.harness() as h:
            await line(h, "c", "b")
            (held,) = await lease(h)
            await h.broker.drop(h.queue)
            await line(h, "b", "a")

            assert ["b"] == ids(await lease(h))
            assert not await end(h, held)
            assert [] == await lease(h)

    async def test_a_restored_message_has_its_key_and_waits_for_it(self) -> None:
        async with self.harness() as h:
            await line(h, "b")
            await end(h, await lease_one(h), Archive())
            await line(h, "a")
            (held,) = await lease(h)

            await h.broker.restore(h.queue, ["b"])

            assert "k" == (await look(h, "b")).key
            assert [] == await lease(h)
            await end(h, held)
            assert ["b"] == ids(await lease(h))

    async def test_a_pause_forgets_nobody_who_waits_for_a_key(self) -> None:
        async with self.harness() as h:
            await line(h, "c", "b", "a")
            (held,) = await lease(h)
            await h.broker.pause(h.queue)
            await end(h, held)
            assert [] == await lease(h)

            await h.broker.resume(h.queue)

            assert ["b", "a"] == await in_turn(h)

    async def test_a_lease_that_ran_out_is_heard_by_those_behind_it(self) -> None:
        async with self.harness() as h:
            await line(h, "b", "a")
            await lease(h, units=5)

            async with running(fetch(h)) as worker:
                assert "b" == await soon(h, worker, "wait should end when a lease runs out")

    async def test_a_key_that_is_let_go_is_heard(self) -> None:
        later = Reschedule(delay=3600)
        ways: list[Disposition] = [Delete(), Archive(), later]
        for way in ways:
            async with self.harness() as h:
                await line(h, "b", "a")
                (held,) = await lease(h)

                async with running(fetch(h)) as worker:
                    await h.advance(1)
                    await end(h, held, way)

                    assert "a" == await soon(h, worker, f"{way} should wake who waits")

    async def test_a_key_that_is_let_go_by_a_cancel_is_heard(self) -> None:
        async with self.harness() as h:
            await line(h, "b", "a")
            await lease(h)

            async with running(fetch(h)) as worker:
                await h.advance(1)
                await h.broker.cancel(h.queue, ["b"], to=Delete())

                assert "a" == await soon(h, worker, "a cancel should wake who waits")

    async def test_a_message_that_gets_another_key_is_heard(self) -> None:
        async with self.harness() as h:
            await line(h, "b", "a")
            await lease(h)

            async with running(fetch(h)) as worker:
                await h.advance(1)
                await send(h, draft(h, "a", key="free", if_taken=STAY))

                assert "a" == await soon(h, worker, "an update should wake who waits")

    async def test_when_there_is_room_for_several_several_are_woken(self) -> None:
        three = Throttle(per_key=3)
        async with self.harness() as h:
            await line(h, "f", "e", "d", "c", "b", "a")
            held = await lease(h, throttle=three)

            async with running(fetch(h, three)) as one, running(fetch(h, three)) as other:
                await h.advance(1)
                await end(h, held[0])
                await end(h, held[2])

                woken = [await soon(h, task, "each should be woken") for task in (one, other)]
                assert ["b", "c"] == sorted(woken)
