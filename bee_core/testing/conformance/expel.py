"""`expel`: messages go as they were seen, and nothing else does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from bee_core.disposition import Archive, Reschedule
from bee_core.message import Update
from bee_core.stored import State
from bee_core.testing.conformance.archive import archive
from bee_core.testing.conformance.foreign import adopt, everything, expel, rich, taken
from bee_core.testing.conformance.harness import Conformance, Harness
from bee_core.testing.conformance.steps import (
    LONG,
    SHORT,
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

BODY = Update(policy=False, run_at="never", reset_counts=False)
TIME = Update(payload=False, policy=False, run_at="always", reset_counts=False)
POLICY = Update(payload=False, run_at="never", reset_counts=False)


class Expelling(Conformance):
    """What goes, and what is left alone."""

    async def test_ready_delayed_and_archived_messages_are_expelled(self) -> None:
        async with self.harness() as h:
            await archive(h, "archived")
            await send(h, "ready", draft(h, "delayed", after=LONG), "stays")
            seen = [await look(h, id) for id in ("delayed", "archived", "ready")]

            assert [] == await expel(h, *seen)

            assert Counts(ready=1) == await counts(h)
            assert [None] * 3 == [await h.broker.get(h.queue, one.id) for one in seen]
            assert ["stays"] == ids(await lease(h))

    async def test_what_was_adopted_is_expelled_as_it_is_seen(self) -> None:
        for state in (State.READY, State.DELAYED, State.ARCHIVED):
            async with self.harness() as h:
                await adopt(h, await rich(h, "a", state))

                assert [] == await expel(h, await look(h, "a"))

                assert None is await h.broker.get(h.queue, "a")

    async def test_messages_go_to_another_queue_and_come_back(self) -> None:
        async with self.harness() as h:
            given = [await rich(h, "a"), await rich(h, "b", State.DELAYED)]
            given.append(await rich(h, "c", State.ARCHIVED))
            await adopt(h, *given)

            for source, target in ((h.queue, h.other_queue), (h.other_queue, h.queue)):
                for one in given:
                    seen = await h.broker.get(source, one.id)
                    assert seen is not None
                    assert [] == list(await h.broker.adopt(target, [seen]))
                    assert [] == list(await h.broker.expel(source, [seen]))

            assert taken(*given) == taken(*[await look(h, one.id) for one in given])
            assert h.other_queue not in await h.broker.queues()

    async def test_what_is_not_there_is_returned(self) -> None:
        async with self.harness() as h:
            await send(h, "a", draft(h, "b", after=LONG))
            await archive_waiting(h, "c")
            seen = [await look(h, id) for id in "abc"]
            await h.broker.drop(h.queue)
            await send(h, "d")

            assert seen == await expel(h, *seen)

            assert Counts(ready=1) == await counts(h)

    async def test_expelling_again_returns_all(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            await archive_waiting(h, "b")
            seen = [await look(h, id) for id in "ab"]
            await expel(h, *seen)

            assert seen == await expel(h, *seen)

    async def test_one_that_is_named_twice_is_returned_once(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            await archive_waiting(h, "b")
            seen = [await look(h, id) for id in "ab"]

            assert ["a", "b"] == sorted(ids(await expel(h, *seen, *seen)))

            assert ([], []) == (await lease(h), await everything(h, State.ARCHIVED))

    async def test_another_life_of_the_id_is_left_alone(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            seen = await look(h, "a")
            await h.broker.purge(h.queue)
            await send(h, "a")
            now = await look(h, "a")
            twin = msgspec.structs.replace(
                now, incarnation=seen.incarnation, due_at=now.due_at, sent_at=now.sent_at
            )

            assert [twin] == await expel(h, twin)

            assert ["a"] == ids(await lease(h))

    async def test_what_was_changed_is_left_alone(self) -> None:
        for what, change in CHANGES.items():
            async with self.harness() as h:
                await send(h, draft(h, "a", after=LONG), draft(h, "b", after=LONG))
                seen = [await look(h, id) for id in "ab"]

                await change(h)

                assert [seen[0]] == await expel(h, *seen), what
                assert "a" == (await look(h, "a")).id

    async def test_what_is_held_is_left_alone(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b")
            seen = await everything(h, State.READY)
            held = await lease_one(h)

            assert [seen[0]] == await expel(h, *seen)

            assert Counts(leased=1) == await counts(h)
            assert await end(h, held)

    async def test_what_was_held_by_one_who_died_is_left_alone(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            seen = await everything(h, State.READY)
            held = await lapse_one(h)

            assert seen == await expel(h, *seen)

            assert await end(h, held)

    async def test_what_was_given_back_is_left_alone(self) -> None:
        for way in (Reschedule(), Reschedule(front=True), Reschedule(delay=1000.0)):
            async with self.harness() as h:
                await send(h, "a")
                seen = await look(h, "a")
                await end(h, await lease_one(h), way)

                assert [seen] == await expel(h, seen)

                assert 1 == (await h.broker.stats(h.queue)).live

    async def test_what_was_archived_is_left_alone(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            seen = await look(h, "a")
            await end(h, await lease_one(h), Archive())

            assert [seen] == await expel(h, seen)

            assert ["a"] == ids(await everything(h, State.ARCHIVED))

    async def test_what_was_restored_is_left_alone(self) -> None:
        async with self.harness() as h:
            await archive(h, "a")
            seen = await look(h, "a")
            await h.broker.restore(h.queue, ["a"])

            assert [seen] == await expel(h, seen)

            assert ["a"] == ids(await lease(h))

    async def test_what_has_fallen_due_meanwhile_is_expelled(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", after=SHORT))
            seen = await look(h, "a")
            await h.advance(2 * SHORT)

            assert [] == await expel(h, seen)

            assert [] == await lease(h)

    async def test_a_successor_stays(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            seen = await look(h, "a")
            held = await lease_one(h)
            await update(h, "a")

            assert [seen] == await expel(h, seen)

            assert Counts(leased=1, blocked=1) == await counts(h)
            await end(h, held)
            assert b"new" == (await lease_one(h)).body

    async def test_of_two_lives_in_the_archive_the_one_that_was_seen_goes(self) -> None:
        for first in (0, 1):
            async with self.harness() as h:
                await archive(h, "a", b"old")
                await archive(h, "a", b"new")
                both = await everything(h, State.ARCHIVED)

                assert [] == await expel(h, both[first])

                assert [both[1 - first]] == await everything(h, State.ARCHIVED)
                assert both[1 - first] == await look(h, "a")
                assert [] == await expel(h, both[1 - first])
                assert None is await h.broker.get(h.queue, "a")

    async def test_its_id_is_free(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", after=LONG), "b")
            await expel(h, await look(h, "a"), await look(h, "b"))

            await send(h, "b", "a")

            assert ["b", "a"] == ids(await lease(h))

    async def test_what_is_expelled_has_ended_here(self) -> None:
        async with self.harness() as h:
            await archive(h, "c")
            await send(h, "a", draft(h, "b", after=LONG))
            await expel(h, *[await look(h, id) for id in "abc"])

            stats = await h.broker.stats(h.queue)
            assert (3, 3, 0) == (stats.created, stats.ended, stats.live)
            assert ({}, None) == (dict(stats.archived), stats.oldest_due)
            assert h.queue not in await h.broker.queues()

    async def test_a_paused_queue_can_be_emptied(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            await h.broker.pause(h.queue)

            assert [] == await expel(h, await look(h, "a"))

            assert (await h.broker.stats(h.queue)).paused

    async def test_expelling_nothing_is_nothing(self) -> None:
        async with self.harness() as h:
            assert [] == await expel(h)

            assert h.queue not in await h.broker.queues()

    async def test_the_same_message_of_another_queue_is_left_alone(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            seen = await look(h, "a")

            assert [seen] == list(await h.broker.expel(h.other_queue, [seen]))

            assert ["a"] == ids(await lease(h))


async def archive_waiting(h: Harness, id: str) -> None:
    """Archive a message that was never leased."""
    await send(h, draft(h, id, after=LONG))
    await h.broker.cancel(h.queue, [id], to=Archive())


def _changing(rule: Update, **fields: object) -> Callable[[Harness], Awaitable[object]]:
    async def change(h: Harness) -> None:
        wanted = draft(h, "a", b"body", after=LONG)
        await send(h, msgspec.structs.replace(wanted, if_taken=rule, **fields))

    return change


CHANGES: dict[str, Callable[[Harness], Awaitable[object]]] = {
    "body": _changing(BODY, body=b"other"),
    "time": _changing(TIME, delay=9.0),
    "headers": _changing(POLICY, headers={"k": "v"}),
    "priority": _changing(POLICY, priority=1),
    "key": _changing(POLICY, key="k"),
}
