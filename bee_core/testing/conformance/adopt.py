"""`adopt`: messages come from another store, with all they have."""

from __future__ import annotations

import msgspec

from bee_core.disposition import Archive, Reschedule
from bee_core.message import Counters, Note, Update
from bee_core.stored import State
from bee_core.testing.conformance.foreign import (
    DIARY,
    adopt,
    archived,
    delayed,
    everything,
    foreign,
    moment,
    rich,
    taken,
)
from bee_core.testing.conformance.harness import Conformance, Harness
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
    update,
)
from bee_core.testing.conformance.waiting import fetch


class Adopting(Conformance):
    """What is taken in, and how it goes on from there."""

    async def test_an_adopted_message_keeps_all_it_has(self) -> None:
        for state in (State.READY, State.DELAYED, State.ARCHIVED):
            async with self.harness() as h:
                given = await rich(h, "a", state)

                assert [] == await adopt(h, given)

                assert taken(given) == taken(await look(h, "a"))
                assert taken(given) == taken(*await everything(h, state))

    async def test_an_adopted_message_that_has_little_keeps_that(self) -> None:
        for make in (foreign, delayed, archived):
            async with self.harness() as h:
                given = await make(h, "a", note=None)

                assert [] == await adopt(h, given)

                assert taken(given) == taken(await look(h, "a"))

    async def test_each_thing_alone_is_kept(self) -> None:
        things = {
            "counters": Counters(releases=1),
            "holder": "ann",
            "note": Note("interrupted"),
            "progress": "half",
            "history": DIARY[:1],
            "key": "k",
            "awaits": 100_000,
            "reports_to": "r",
            "headers": {"k": "v"},
            "body": b"",
        }
        for name, value in things.items():
            async with self.harness() as h:
                given = await foreign(h, "a", **{name: value})

                await adopt(h, given)

                assert taken(given) == taken(await look(h, "a")), name

    async def test_its_incarnation_is_new(self) -> None:
        async with self.harness() as h:
            await send(h, "before")
            await adopt(h, await foreign(h, "a", incarnation=1))
            await send(h, "after")

            numbers = [(await look(h, id)).incarnation for id in ("before", "a", "after")]
            assert sorted(numbers) == numbers
            assert 3 == len(set(numbers))

    async def test_messages_of_one_moment_stay_in_their_order(self) -> None:
        async with self.harness() as h:
            given = [await foreign(h, id) for id in ("c", "a", "b")]
            given += [await foreign(h, id, priority=1) for id in ("f", "d", "e")]

            await adopt(h, *given[:2], *given[3:])
            await adopt(h, given[2])

            assert ["f", "d", "e", "c", "a", "b"] == ids(await everything(h, State.READY))
            assert ["f", "d", "e", "c", "a", "b"] == ids(await lease(h))

    async def test_delayed_messages_stay_in_their_order(self) -> None:
        async with self.harness() as h:
            first = await delayed(h, "c")
            later = first.due_at + 1
            rest = [await delayed(h, "b", due_at=later), await delayed(h, "a", due_at=later)]

            await adopt(h, *rest, msgspec.structs.replace(first, due_at=later - 1))

            assert ["c", "b", "a"] == ids(await everything(h, State.DELAYED))

    async def test_archived_messages_of_one_moment_stay_in_their_order(self) -> None:
        async with self.harness() as h:
            given = [await archived(h, id, archived_at=1e9) for id in ("c", "a", "b")]

            await adopt(h, *given)

            assert ["c", "a", "b"] == ids(await everything(h, State.ARCHIVED))

    async def test_adopted_messages_come_when_they_are_due_among_the_others(self) -> None:
        async with self.harness() as h:
            await send(h, "new", draft(h, "urgent", priority=1))

            await adopt(h, await foreign(h, "old"), await foreign(h, "low", priority=-1))

            assert ["urgent", "old", "new", "low"] == ids(await lease(h))

    async def test_a_message_whose_id_is_live_is_not_taken_in(self) -> None:
        async with self.harness() as h:
            await send(h, "held")
            held = await lease_one(h)
            await send(h, "ready", draft(h, "delayed", after=LONG))
            names = ("held", "ready", "delayed")
            before = [await look(h, id) for id in names]
            given = [await rich(h, id) for id in names]

            left = await adopt(h, given[0], await foreign(h, "free"), *given[1:])

            assert given == left
            assert before == [await look(h, id) for id in names]
            assert Counts(ready=2, delayed=1, leased=1) == await counts(h)
            assert await end(h, held)

    async def test_an_archived_message_comes_beside_a_live_one(self) -> None:
        async with self.harness() as h:
            await send(h, "a")

            assert [] == await adopt(h, await archived(h, "a"))

            assert State.READY is (await look(h, "a")).state
            assert ["a"] == ids(await everything(h, State.ARCHIVED))

    async def test_a_live_message_comes_beside_an_archived_one(self) -> None:
        async with self.harness() as h:
            assert [] == await adopt(h, await archived(h, "a"), await foreign(h, "a"))

            assert Counts(ready=1) == await counts(h)
            assert ["a"] == ids(await everything(h, State.ARCHIVED))

    async def test_an_archived_message_is_taken_in_once(self) -> None:
        async with self.harness() as h:
            given = await rich(h, "a", State.ARCHIVED)
            newer = msgspec.structs.replace(given, archived_at=1.5e9)
            await adopt(h, given, newer)

            again = msgspec.structs.replace(given, incarnation=1)
            assert [again, newer] == await adopt(h, again, newer)

            assert 2 == len(await everything(h, State.ARCHIVED))
            assert 2 == sum((await h.broker.stats(h.queue)).archived.values())

    async def test_archived_messages_of_one_id_differ_in_either_moment(self) -> None:
        async with self.harness() as h:
            given = await archived(h, "a")
            times = (given.sent_at, given.archived_at or 0.0)
            others = [
                msgspec.structs.replace(given, sent_at=times[0] - 1),
                msgspec.structs.replace(given, archived_at=times[1] - 1),
                msgspec.structs.replace(given, id="b"),
            ]

            assert [] == await adopt(h, given, *others)

            assert 4 == len(await everything(h, State.ARCHIVED))

    async def test_the_same_archived_message_may_have_come_from_here(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            await end(h, await lease_one(h), Archive(), note=Note("failed"))
            (kept,) = await everything(h, State.ARCHIVED)

            assert [kept] == await adopt(h, kept)
            assert [kept] == await everything(h, State.ARCHIVED)

    async def test_adopting_again_changes_nothing(self) -> None:
        async with self.harness() as h:
            batch = [await rich(h, "a"), await delayed(h, "b"), await archived(h, "c")]
            await adopt(h, *batch)
            before = [await look(h, id) for id in "abc"]

            assert batch == await adopt(h, *batch)

            assert before == [await look(h, id) for id in "abc"]
            stats = await h.broker.stats(h.queue)
            assert (2, {"failed": 1}, 2) == (stats.live, dict(stats.archived), stats.created)

    async def test_of_two_with_one_id_in_one_call_the_first_is_taken_in(self) -> None:
        async with self.harness() as h:
            one, two = await foreign(h, "a", body=b"1"), await foreign(h, "a", body=b"2")
            kept = await archived(h, "a")

            assert [two, kept] == await adopt(h, one, two, kept, kept)

            assert (b"1", 1) == (
                (await lease_one(h)).body,
                len(await everything(h, State.ARCHIVED)),
            )

    async def test_an_older_life_of_an_id_stays_the_older_one(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", b"newest"))
            await end(h, await lease_one(h), Archive())

            for body, age in ((b"old", 9.0), (b"oldest", 99.0), (b"older", 90.0)):
                when = await moment(h) - age
                await adopt(h, await archived(h, "a", body=body, archived_at=when))

            order = [b"newest", b"old", b"older", b"oldest"]
            assert order == [one.body for one in await everything(h, State.ARCHIVED)]
            assert order == [await last_life(h) for _ in order]

    async def test_a_newer_life_of_an_id_becomes_the_newest(self) -> None:
        async with self.harness() as h:
            await adopt(h, await archived(h, "a", body=b"old", archived_at=1e9))
            await adopt(h, await archived(h, "a", body=b"new", archived_at=1e9 + 1))

            assert [b"new", b"old"] == [await last_life(h) for _ in range(2)]

    async def test_adopted_messages_are_pruned_by_their_age(self) -> None:
        async with self.harness() as h:
            await send(h, "young")
            await end(h, await lease_one(h), Archive())
            await adopt(h, await archived(h, "b"), await archived(h, "a", archived_at=1e8))

            assert 1 == await h.broker.prune(h.queue, limit=1)
            assert ["young", "b"] == ids(await everything(h, State.ARCHIVED))
            assert 1 == await h.broker.prune(h.queue, older_than=20)
            assert ["young"] == ids(await everything(h, State.ARCHIVED))

    async def test_an_adopted_message_goes_on_where_it_was(self) -> None:
        async with self.harness() as h:
            given = await rich(h, "a", counters=Counters(deliveries=3, errors=2))
            await adopt(h, given)

            held = await lease_one(h, holder="bob")
            assert Counters(deliveries=4, errors=2) == held.counters
            assert (given.sent_at, given.key) == (held.sent_at, held.key)
            await end(h, held, Reschedule(), note=Note("failed"), counters=Counters(errors=1))

            stored = await look(h, "a")
            assert Counters(deliveries=4, errors=3) == stored.counters
            assert DIARY[1:] == tuple(stored.history)[:9]
            assert ("bob", held.receipt.token) == (stored.history[-1].holder, held.receipt.token)

    async def test_an_adopted_message_is_changed_like_any_other(self) -> None:
        async with self.harness() as h:
            await adopt(h, await rich(h, "a"), await delayed(h, "b"), await archived(h, "c"))

            await update(h, "a", after=LONG, rule=Update(policy=False))
            assert set() == await h.broker.cancel(h.queue, ["b"], to=Archive())
            assert set() == await h.broker.restore(h.queue, ["c"])

            assert (b"new", State.DELAYED) == (
                (await look(h, "a")).body,
                (await look(h, "a")).state,
            )
            assert ["b"] == ids(await everything(h, State.ARCHIVED))
            assert ["c"] == ids(await lease(h))

    async def test_who_waits_hears_of_an_adopted_message(self) -> None:
        async with self.harness() as h:
            given = await foreign(h, "a")
            async with running(fetch(h)) as worker:
                await h.advance(1)

                await adopt(h, given)

                assert "a" == await soon(h, worker, "adopt should wake who waits")

    async def test_an_adopted_message_falls_due(self) -> None:
        async with self.harness() as h:
            given = await delayed(h, "a")
            now = (await sent_now(h)) + 2 * SHORT * h.unit
            async with running(fetch(h)) as worker:
                await h.advance(1)

                await adopt(h, msgspec.structs.replace(given, due_at=round(now, 6)))

                assert "a" == await soon(h, worker, "what was adopted should fall due")

    async def test_what_has_fallen_due_on_its_way_is_ready(self) -> None:
        async with self.harness() as h:
            await adopt(h, await foreign(h, "a", state=State.DELAYED))

            assert State.READY is (await look(h, "a")).state
            assert ["a"] == ids(await lease(h))


async def sent_now(h: Harness) -> float:
    """What time it is in the store."""
    await h.broker.send(h.other_queue, [draft(h, "now")])
    stored = await h.broker.get(h.other_queue, "now")
    assert stored is not None
    await h.broker.drop(h.other_queue)
    return stored.sent_at


async def last_life(h: Harness) -> bytes:
    """The body of the life of `a` that was archived last; restored, and gone."""
    found = (await look(h, "a")).body
    assert set() == await h.broker.restore(h.queue, ["a"])
    held = await lease_one(h)
    assert found == held.body
    await end(h, held)
    return found
