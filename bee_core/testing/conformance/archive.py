"""The archive: what is kept, how it comes back, and how it is cleared."""

from __future__ import annotations

from bee_core.disposition import Archive, Reschedule
from bee_core.message import ZERO, Counters, Note
from bee_core.stored import State, Stored
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
    send,
    update,
)


class Archiving(Conformance):
    """Archive, restore and prune."""

    async def test_the_archive_keeps_the_whole_message(self) -> None:
        note = Note("failed", "ValueError: no")
        async with self.harness() as h:
            body = b"\x00\xff"
            await send(h, draft(h, "a", body, priority=4, headers={"k": "v"}))
            before = await look(h, "a")

            held = await lease_one(h, holder="alice")
            await end(h, held, Archive(), note=note, counters=Counters(errors=2))
            after = await look(h, "a")

            assert (State.ARCHIVED, body, 4) == (after.state, after.body, after.priority)
            assert {"k": "v"} == dict(after.headers)
            assert Counters(deliveries=1, errors=2) == after.counters
            assert (note, "alice", None) == (after.note, after.holder, after.leased_until)
            assert (before.incarnation, before.sent_at) == (after.incarnation, after.sent_at)

    async def test_the_archive_knows_when(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            held = await lease_one(h)
            await h.advance(5)

            await end(h, held, Archive())
            stored = await look(h, "a")

            assert stored.archived_at is not None
            assert 4 < (stored.archived_at - stored.sent_at) / h.unit < 25

    async def test_the_archive_keeps_the_last_note_of_a_message(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            await end(h, await lease_one(h), Reschedule(), note=Note("failed", "once"))

            await end(h, await lease_one(h), Archive())

            assert Note("failed", "once") == (await look(h, "a")).note

    async def test_two_lives_of_one_id_are_archived_apart(self) -> None:
        async with self.harness() as h:
            await archive(h, "a", b"first")
            await archive(h, "a", b"second")

            page = await h.broker.scan(h.queue, State.ARCHIVED)

            assert [b"second", b"first"] == [one.body for one in page.items]
            assert page.items[0].incarnation > page.items[1].incarnation
            assert b"second" == (await look(h, "a")).body

    async def test_a_live_message_is_found_before_an_archived_one(self) -> None:
        async with self.harness() as h:
            await archive(h, "a", b"archived")
            await send(h, draft(h, "a", b"live"))

            assert (State.READY, b"live") == await state_and_body(h, "a")
            await h.broker.purge(h.queue)
            assert (State.ARCHIVED, b"archived") == await state_and_body(h, "a")

    async def test_a_restored_message_starts_afresh(self) -> None:
        async with self.harness() as h:
            body = b"\x00\xff"
            await send(h, draft(h, "a", body, priority=4, headers={"k": "v"}))
            held = await lease_one(h)
            await end(h, held, Archive(), note=Note("failed"), counters=Counters(errors=1))
            before = await look(h, "a")

            missing = await h.broker.restore(h.queue, ["a"])
            after = await look(h, "a")

            assert set() == missing
            assert (State.READY, body, 4) == (after.state, after.body, after.priority)
            assert {"k": "v"} == dict(after.headers)
            assert (ZERO, None) == (after.counters, after.archived_at)
            assert before.incarnation < after.incarnation

    async def test_a_restored_message_is_no_longer_in_the_archive(self) -> None:
        async with self.harness() as h:
            await archive(h, "a")

            await h.broker.restore(h.queue, ["a"])

            assert [] == (await h.broker.scan(h.queue, State.ARCHIVED)).items
            assert Counts(ready=1) == await counts(h)
            assert {} == dict((await h.broker.stats(h.queue)).archived)

    async def test_a_restored_message_is_ready_even_if_it_was_delayed(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", after=LONG))
            await h.broker.cancel(h.queue, ["a"], to=Archive())

            await h.broker.restore(h.queue, ["a"])

            assert ["a"] == ids(await lease(h))

    async def test_restored_messages_line_up_behind_what_waits(self) -> None:
        async with self.harness() as h:
            await archive(h, "a")
            await archive(h, "b")
            await send(h, "c")

            await h.broker.restore(h.queue, ["b", "a"])

            assert ["c", "b", "a"] == ids(await lease(h))

    async def test_a_restored_message_can_be_worked_and_archived_again(self) -> None:
        async with self.harness() as h:
            await archive(h, "a")
            await h.broker.restore(h.queue, ["a"])

            held = await lease_one(h)
            applied = await end(h, held, Archive())

            assert Counters(deliveries=1) == held.counters
            assert applied
            assert ["a"] == ids((await h.broker.scan(h.queue, State.ARCHIVED)).items)

    async def test_the_life_that_was_archived_last_is_restored_first(self) -> None:
        async with self.harness() as h:
            await archive(h, "a", b"first")
            await archive(h, "a", b"second")
            bodies = []

            for _ in range(2):
                assert set() == await h.broker.restore(h.queue, ["a"])
                held = await lease_one(h)
                bodies.append(held.body)
                await end(h, held)

            assert [b"second", b"first"] == bodies
            assert {"a"} == await h.broker.restore(h.queue, ["a"])

    async def test_the_life_that_was_archived_last_may_have_been_the_first(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", b"first"))
            held = await lease_one(h)
            await update(h, "a", b"second")
            await h.broker.cancel(h.queue, ["a"], to=Archive(), running=False)
            await h.advance(1)

            await end(h, held, Archive())

            assert b"first" == (await look(h, "a")).body
            assert ["a", "a"] == await archived(h)
            await h.broker.restore(h.queue, ["a"])
            assert b"first" == (await lease_one(h)).body

    async def test_what_is_live_again_or_was_never_archived_is_not_restored(self) -> None:
        async with self.harness() as h:
            for id in ("ready", "delayed", "held", "free"):
                await archive(h, id, b"archived")
            await send(h, "held")
            await lease_one(h)
            await send(h, "ready", draft(h, "delayed", after=LONG))

            wanted = ["ready", "delayed", "held", "free", "unknown"]
            missing = await h.broker.restore(h.queue, wanted)

            assert {"ready", "delayed", "held", "unknown"} == missing
            assert Counts(ready=2, delayed=1, leased=1) == await counts(h)
            assert 3 == len((await h.broker.scan(h.queue, State.ARCHIVED)).items)

    async def test_pruning_clears_the_archive_and_says_how_much(self) -> None:
        async with self.harness() as h:
            await archive(h, "a")
            await archive(h, "a")
            await archive(h, "b")
            await send(h, "waiting")

            assert 3 == await h.broker.prune(h.queue)
            assert 0 == await h.broker.prune(h.queue)

            assert None is await h.broker.get(h.queue, "a")
            assert Counts(ready=1) == await counts(h)

    async def test_pruning_takes_the_oldest_first(self) -> None:
        async with self.harness() as h:
            await archive_in_turn(h, "c", "b", "a")

            assert 2 == await h.broker.prune(h.queue, limit=2)

            assert ["a"] == await archived(h)

    async def test_pruning_keeps_the_newest(self) -> None:
        async with self.harness() as h:
            await archive_in_turn(h, "c", "b", "a")

            assert 1 == await h.broker.prune(h.queue, keep=2)
            assert 0 == await h.broker.prune(h.queue, keep=2)
            assert 0 == await h.broker.prune(h.queue, keep=100)

            assert ["a", "b"] == await archived(h)

    async def test_pruning_spares_what_is_young(self) -> None:
        async with self.harness() as h:
            await archive(h, "old")
            await h.advance(14)
            await archive(h, "young")

            assert 0 == await h.broker.prune(h.queue, older_than=LONG * h.unit)
            assert 1 == await h.broker.prune(h.queue, older_than=10 * h.unit)

            assert ["young"] == await archived(h)

    async def test_pruning_by_age_and_number_spares_both(self) -> None:
        async with self.harness() as h:
            await archive_in_turn(h, "c", "b", "a")
            await h.advance(14)
            await archive(h, "young")

            assert 1 == await h.broker.prune(h.queue, older_than=10 * h.unit, keep=3)
            assert 2 == await h.broker.prune(h.queue, older_than=10 * h.unit, keep=1)

            assert ["young"] == await archived(h)

    async def test_pruning_one_queue_leaves_another_alone(self) -> None:
        async with self.harness() as h:
            await archive(h, "a")

            assert 0 == await h.broker.prune(h.other_queue)

            assert ["a"] == await archived(h)


async def archive(h: Harness, id: str, body: bytes = b"body") -> None:
    """Send a message, lease it and archive it. Nothing else may be ready."""
    await send(h, draft(h, id, body))
    await end(h, await lease_one(h), Archive(), note=Note("succeeded"))


async def archive_in_turn(h: Harness, *wanted: str) -> None:
    """Archive messages at moments that can be told apart."""
    for id in wanted:
        await archive(h, id)
        await h.advance(1)


async def archived(h: Harness) -> list[str]:
    """The ids in the archive, newest first."""
    return ids((await h.broker.scan(h.queue, State.ARCHIVED)).items)


async def state_and_body(h: Harness, id: str) -> tuple[State, bytes]:
    stored: Stored = await look(h, id)
    return stored.state, stored.body
