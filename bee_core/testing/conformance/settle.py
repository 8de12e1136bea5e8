"""`settle`: a lease ends once, in one step, and only by the hand of its holder."""

from __future__ import annotations

from bee_core.disposition import Archive, Delete, Disposition, Reschedule
from bee_core.message import Counters, Note, Receipt, Settlement
from bee_core.stored import State
from bee_core.testing.conformance.harness import Conformance
from bee_core.testing.conformance.steps import (
    LONG,
    SHORT,
    Counts,
    counts,
    draft,
    end,
    ids,
    lapse,
    lease,
    lease_one,
    look,
    send,
)

EVERY_WAY: list[Disposition] = [
    Delete(),
    Archive(),
    Reschedule(),
    Reschedule(delay=60),
    Reschedule(front=True),
]


class Settling(Conformance):
    """Delete, Archive, Reschedule; applied or lost."""

    async def test_a_deleted_message_is_gone(self) -> None:
        async with self.harness() as h:
            await send(h, "a")

            assert await end(h, await lease_one(h), Delete())

            assert Counts() == await counts(h)
            assert None is await h.broker.get(h.queue, "a")

    async def test_an_archived_message_is_out_of_the_queue_and_kept(self) -> None:
        async with self.harness() as h:
            await send(h, "a")

            assert await end(h, await lease_one(h), Archive())

            assert Counts() == await counts(h)
            assert [] == await lease(h)
            assert State.ARCHIVED is (await look(h, "a")).state

    async def test_a_message_is_repeated_in_place(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", b"hello", priority=2, headers={"k": "v"}))
            before = await look(h, "a")

            assert await end(h, await lease_one(h), Reschedule())
            after = await look(h, "a")

            assert (State.READY, None) == (after.state, after.leased_until)
            assert (before.incarnation, before.sent_at) == (after.incarnation, after.sent_at)
            assert (b"hello", 2, {"k": "v"}) == (after.body, after.priority, dict(after.headers))

    async def test_a_message_repeated_later_is_hidden_until_then(self) -> None:
        async with self.harness() as h:
            await send(h, "soon", "late")
            soon, late = await lease(h)

            await end(h, late, Reschedule(delay=LONG * h.unit))
            await end(h, soon, Reschedule(delay=SHORT * h.unit))
            stored = await look(h, "soon")
            await h.advance(2 * SHORT)

            assert stored.due_at >= stored.sent_at + SHORT * h.unit
            assert Counts(ready=1, delayed=1) == await counts(h)
            assert ["soon"] == ids(await lease(h))

    async def test_a_repeat_is_due_its_delay_after_it_was_settled(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            held = await lease_one(h)
            await h.advance(5)

            await end(h, held, Reschedule(delay=LONG * h.unit))
            stored = await look(h, "a")

            waited = (stored.due_at - stored.sent_at) / h.unit
            assert LONG + 4 < waited < LONG + 15

    async def test_a_late_worker_may_settle_if_nobody_took_over(self) -> None:
        async with self.harness() as h:
            await send(h, *map(str, EVERY_WAY))
            late = await lapse(h)

            applied = [await end(h, one, way) for one, way in zip(late, EVERY_WAY, strict=True)]

            assert [True] * len(EVERY_WAY) == applied
            for way in EVERY_WAY:
                stored = await h.broker.get(h.queue, str(way))
                assert (way == Delete()) == (stored is None)
                assert stored is None or Counters(deliveries=1) == stored.counters

    async def test_a_stale_worker_cannot_settle_someone_elses_lease(self) -> None:
        async with self.harness() as h:
            await send(h, *map(str, EVERY_WAY))
            stale = await lapse(h)
            held = await lease(h, holder="bob")
            before = [await look(h, str(way)) for way in EVERY_WAY]

            note, more = Note("failed"), Counters(errors=1)
            ways = zip(stale, EVERY_WAY, strict=True)
            applied = [await end(h, one, way, note=note, counters=more) for one, way in ways]

            assert [False] * len(EVERY_WAY) == applied
            assert before == [await look(h, str(way)) for way in EVERY_WAY]
            assert [] == await lease(h)
            assert all([await end(h, one) for one in held])

    async def test_a_stale_worker_cannot_settle_the_next_life_of_its_message(self) -> None:
        async with self.harness() as h:
            await send(h, *map(str, EVERY_WAY))
            stale = await lapse(h)
            for one in await lease(h):
                await end(h, one)
            await send(h, *(draft(h, str(way), b"second") for way in EVERY_WAY))

            applied = [await end(h, one, way) for one, way in zip(stale, EVERY_WAY, strict=True)]

            assert [False] * len(EVERY_WAY) == applied
            assert [b"second"] * len(EVERY_WAY) == [one.body for one in await lease(h)]

    async def test_a_lease_can_be_settled_only_once(self) -> None:
        for way in EVERY_WAY:
            async with self.harness() as h:
                await send(h, "a")
                held = await lease_one(h)

                first = await end(h, held, way, counters=Counters(errors=1))
                again = [await end(h, held, other) for other in EVERY_WAY]

                assert first
                assert [False] * len(EVERY_WAY) == again
                stored = await h.broker.get(h.queue, "a")
                assert (way == Delete()) == (stored is None)
                assert stored is None or Counters(deliveries=1, errors=1) == stored.counters

    async def test_a_receipt_named_twice_in_one_call_is_settled_once(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            held = await lease_one(h)

            settlement = Settlement(held.receipt, Reschedule(), None, Counters(errors=1))
            await h.broker.settle(h.queue, [settlement, settlement])

            assert Counters(deliveries=1, errors=1) == (await look(h, "a")).counters
            assert ["a"] == ids(await lease(h))

    async def test_a_batch_names_only_the_lost_ones(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b", "c", "d")
            a, b, c, d = await lease(h)
            await end(h, b)

            unknown = Receipt("nobody", d.receipt.token)
            lost = await h.broker.settle(
                h.queue,
                [
                    Settlement(a.receipt, Delete()),
                    Settlement(b.receipt, Archive()),
                    Settlement(unknown, Delete()),
                    Settlement(c.receipt, Archive()),
                    Settlement(d.receipt, Reschedule()),
                ],
            )

            assert {b.receipt, unknown} == lost
            assert Counts(ready=1) == await counts(h)
            assert [None, None] == [await h.broker.get(h.queue, id) for id in ("a", "b")]
            assert State.ARCHIVED is (await look(h, "c")).state

    async def test_a_stale_receipt_is_lost_in_whatever_company_it_is_settled(self) -> None:
        async with self.harness() as h:
            for way in EVERY_WAY:
                await send(h, "a", "b")
                (stale,) = [one for one in await lapse(h) if one.receipt.id == "a"]
                held = {one.receipt.id: one for one in await lease(h)}

                batch = [Settlement(stale.receipt, Delete()), Settlement(held["b"].receipt, way)]

                assert {stale.receipt} == await h.broker.settle(h.queue, batch)
                assert await end(h, held["a"])
                await h.broker.purge(h.queue)

    async def test_a_large_batch_is_extended_and_settled_whole(self) -> None:
        async with self.harness() as h:
            await send(h, *(str(n) for n in range(1000)))
            receipts = [one.receipt for one in await lease(h, 1000)]

            extended = await h.broker.extend(h.queue, receipts, duration=LONG * h.unit)
            settled = await h.broker.settle(h.queue, [Settlement(r, Delete()) for r in receipts])

            assert (set(), set()) == (extended, settled)
            assert Counts() == await counts(h)

    async def test_a_message_that_nobody_holds_cannot_be_settled(self) -> None:
        async with self.harness() as h:
            await send(h, "a", draft(h, "b", after=LONG))

            receipts = [Receipt(id, token) for id in ("a", "b") for token in (0, 1, -1)]
            lost = await h.broker.settle(h.queue, [Settlement(r, Delete()) for r in receipts])

            assert set(receipts) == lost
            assert Counts(ready=1, delayed=1) == await counts(h)

    async def test_the_token_of_one_message_does_not_settle_another(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b")
            a, b = await lease(h)

            crossed = [Receipt("a", b.receipt.token), Receipt("b", a.receipt.token)]
            lost = await h.broker.settle(h.queue, [Settlement(r, Delete()) for r in crossed])

            assert set(crossed) == lost
            assert Counts(leased=2) == await counts(h)

    async def test_a_lease_of_another_queue_cannot_be_settled_here(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            await h.broker.send(h.other_queue, [draft(h, "a")])
            held = await lease_one(h)

            lost = await h.broker.settle(h.other_queue, [Settlement(held.receipt, Delete())])

            assert {held.receipt} == lost
            assert Counts(ready=1) == await counts(h, h.other_queue)
            assert await end(h, held)

    async def test_counters_are_added_each_to_its_own(self) -> None:
        added = [
            Counters(errors=1),
            Counters(timeouts=2),
            Counters(stalls=3),
            Counters(releases=4),
            Counters(errors=10, timeouts=20, stalls=30, releases=40),
        ]
        async with self.harness() as h:
            await send(h, "a")

            for more in added:
                await end(h, await lease_one(h), Reschedule(), counters=more)
            held = await lease_one(h)

            expected = Counters(deliveries=6, errors=11, timeouts=22, stalls=33, releases=44)
            assert expected == held.counters
            assert expected == (await look(h, "a")).counters

    async def test_a_message_given_back_to_the_front_keeps_its_counters(self) -> None:
        async with self.harness() as h:
            await send(h, "a")

            way = Reschedule(front=True)
            await end(h, await lease_one(h), way, counters=Counters(releases=1))

            assert Counters(deliveries=1, releases=1) == (await look(h, "a")).counters

    async def test_a_repeated_message_keeps_the_note(self) -> None:
        note = Note("failed", 'ValueError: it\'s "bad" \\ {}\r\n\x00 日本 🐝 ' + "x" * 4000)
        for way in (Reschedule(), Reschedule(delay=60), Reschedule(front=True)):
            async with self.harness() as h:
                await send(h, "a")

                await end(h, await lease_one(h), way, note=note)

                assert note == (await look(h, "a")).note

    async def test_the_last_note_stays_until_there_is_another(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            seen = []

            for note in (Note("failed", "1"), None, Note("timed_out", "2")):
                await end(h, await lease_one(h), Reschedule(), note=note)
                seen.append((await look(h, "a")).note)

            assert [Note("failed", "1"), Note("failed", "1"), Note("timed_out", "2")] == seen

    async def test_a_repeated_message_can_be_leased_and_settled_again(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", b"hello"))

            for _ in range(3):
                assert await end(h, await lease_one(h), Reschedule())
            last = await lease_one(h)

            assert b"hello" == last.body
            assert await end(h, last)
            assert Counts() == await counts(h)
