"""Keys: of the messages that share one, only so many are held at a time, each in its turn.

Ids are chosen so that the order of their text is never the right answer.
"""

from __future__ import annotations

from bee_core.disposition import Archive, Delete, Reschedule
from bee_core.message import Settlement, Throttle, Update
from bee_core.stored import State
from bee_core.testing.conformance.harness import Conformance, Harness
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
)

STRANGE_KEYS = [
    "a",
    "a:b",
    "a b",
    "{a}",
    "A",
    "*",
    "日本",
    "🐝",
    "é",
    "e\u0301",
    "'",
    "%s",
    "x" * 200,
]


class Keyed(Conformance):
    """Who holds a key, and who comes next."""

    async def test_of_the_messages_of_one_key_one_is_held_at_a_time(self) -> None:
        async with self.harness() as h:
            await line(h, "b", "a")

            assert ["b"] == ids(await lease(h))
            assert [] == await lease(h)
            assert Counts(ready=1, leased=1) == await counts(h)

    async def test_a_message_and_its_lease_show_the_key(self) -> None:
        async with self.harness() as h:
            await send(h, *(draft(h, f"{n}", key=key) for n, key in enumerate(STRANGE_KEYS)), "-")

            stored = [await look(h, f"{n}") for n in range(len(STRANGE_KEYS))]
            leases = await lease(h)

            assert STRANGE_KEYS == [one.key for one in stored]
            assert [*STRANGE_KEYS, None] == [one.key for one in leases]
            assert None is (await look(h, "-")).key

    async def test_a_message_shows_its_key_wherever_it_is(self) -> None:
        async with self.harness() as h:
            await line(h, "a")
            held = await lease_one(h)
            await send(h, draft(h, "a", key="other", if_taken=Update()))
            (blocked,) = (await h.broker.scan(h.queue, State.BLOCKED)).items

            await h.broker.cancel(h.queue, ["a"], to=Delete(), running=False)
            await end(h, held, Archive())

            assert ("other", "k") == (blocked.key, (await look(h, "a")).key)

    async def test_keys_are_told_apart_to_the_letter(self) -> None:
        async with self.harness() as h:
            for turn in "xy":
                drafts = [draft(h, f"{turn} {key}"[:200], key=key) for key in STRANGE_KEYS]
                await send(h, *drafts)

            first = await lease(h)

            assert STRANGE_KEYS == [one.key for one in first]
            assert {"x"} == {one.receipt.id[0] for one in first}

    async def test_other_keys_and_messages_without_one_pass(self) -> None:
        async with self.harness() as h:
            await line(h, "e", "d")
            await line(h, "c", "f", key="other")
            await send(h, "b", "a")

            assert ["e", "c", "b", "a"] == ids(await lease(h))

    async def test_a_key_in_one_queue_is_not_held_in_another(self) -> None:
        async with self.harness() as h:
            await line(h, "a")
            await h.broker.send(h.other_queue, [draft(h, "b", key="k")])
            await lease_one(h)

            leases = await h.broker.lease(h.other_queue, limit=1, duration=60, holder="w")

            assert ["b"] == ids(leases)

    async def test_what_is_passed_over_does_not_count_against_the_limit(self) -> None:
        async with self.harness() as h:
            await line(h, *(f"k{9 - n}" for n in range(9)))
            await send(h, "b", "a")

            assert ["k9", "b"] == ids(await lease(h, 2))
            assert ["a"] == ids(await lease(h, 2))

    async def test_as_many_are_held_at_a_time_as_are_asked_for(self) -> None:
        async with self.harness() as h:
            three = Throttle(per_key=3)
            await line(h, "e", "d", "c", "b", "a")

            first = await lease(h, throttle=three)
            more = await lease(h, throttle=three)
            await end(h, first[1])
            last = await lease(h, throttle=three)

            assert (["e", "d", "c"], [], ["b"]) == (ids(first), more, ids(last))

    async def test_what_one_call_has_taken_counts_in_the_next(self) -> None:
        async with self.harness() as h:
            await line(h, "d", "c", "b", "a")

            calls = [ids(await lease(h, 1, throttle=Throttle(per_key=3))) for _ in range(5)]

            assert [["d"], ["c"], ["b"], [], []] == calls

    async def test_any_number_may_be_held_if_none_is_given(self) -> None:
        async with self.harness() as h:
            wanted = [f"{9 - n}" for n in range(9)]
            await line(h, *wanted)

            assert wanted == ids(await lease(h, throttle=Throttle(per_key=None)))

    async def test_what_was_leased_without_a_bound_counts_for_who_has_one(self) -> None:
        async with self.harness() as h:
            await line(h, "c", "b")
            first = await lease(h, throttle=Throttle(per_key=None))
            await line(h, "a")

            seen = [ids(await lease(h))]
            for one in first:
                await end(h, one)
                seen.append(ids(await lease(h)))

            assert [[], [], ["a"]] == seen

    async def test_once_a_key_is_free_as_many_come_as_are_asked_for(self) -> None:
        for per_key, wanted in ((1, 1), (2, 2), (3, 3), (None, 4)):
            async with self.harness() as h:
                await line(h, "e", "d", "c", "b", "a")
                (held,) = await lease(h)
                assert [] == await lease(h)
                await end(h, held)

                leases = await lease(h, throttle=Throttle(per_key=per_key))

                assert ["d", "c", "b", "a"][:wanted] == ids(leases)

    async def test_a_key_is_free_when_its_holder_has_ended(self) -> None:
        for way in (Delete(), Archive()):
            async with self.harness() as h:
                await line(h, "c", "b", "a")

                for wanted in ("c", "b", "a"):
                    (held,) = await lease(h)
                    assert wanted == held.receipt.id
                    assert await end(h, held, way)

                assert Counts() == await counts(h)

    async def test_a_key_is_free_when_its_holder_is_cancelled(self) -> None:
        for to in (Delete(), Archive()):
            async with self.harness() as h:
                await line(h, "b", "a")
                await lease(h)

                await h.broker.cancel(h.queue, ["b"], to=to)

                assert ["a"] == ids(await lease(h))

    async def test_those_that_end_in_one_call_make_room_for_as_many(self) -> None:
        async with self.harness() as h:
            two = Throttle(per_key=2)
            await line(h, "e", "d", "c", "b", "a")
            held = await lease(h, throttle=two)

            ends = [Settlement(one.receipt, Delete()) for one in held]
            assert set() == await h.broker.settle(h.queue, ends)

            assert ["c", "b"] == ids(await lease(h, throttle=two))

    async def test_a_key_is_free_when_its_holder_is_to_be_repeated(self) -> None:
        async with self.harness() as h:
            await line(h, "c", "b", "a")
            (held,) = await lease(h)

            await end(h, held, Reschedule(delay=LONG * h.unit))
            (second,) = await lease(h)
            await end(h, second, Reschedule())

            assert ["a"] == ids(await lease(h))
            assert Counts(ready=1, delayed=1, leased=1) == await counts(h)

    async def test_what_is_given_back_to_the_front_is_the_next_of_its_key(self) -> None:
        async with self.harness() as h:
            await line(h, "b", "a")
            (held,) = await lease(h)

            await end(h, held, Reschedule(front=True))
            (again,) = await lease(h)

            assert "b" == again.receipt.id
            assert [] == await lease(h)
            await end(h, again)
            assert ["a"] == ids(await lease(h))

    async def test_a_lost_lease_frees_no_key(self) -> None:
        async with self.harness() as h:
            await line(h, "b", "a")
            stale = await lapse_one(h)
            (held,) = await lease(h)

            for way in (Delete(), Archive(), Reschedule()):
                assert not await end(h, stale, way)

            assert [] == await lease(h)
            assert await end(h, held)
            assert ["a"] == ids(await lease(h))


async def line(h: Harness, *wanted: str, key: str = "k") -> None:
    """Send messages that share a key, in this order."""
    await send(h, *(draft(h, id, key=key) for id in wanted))


async def in_turn(h: Harness) -> list[str]:
    """Lease and end what comes, until nothing does. It must come one by one."""
    found: list[str] = []
    while leases := await lease(h):
        (only,) = leases
        found.append(only.receipt.id)
        await end(h, only)
        assert len(found) < 1000, "the messages have no end"
    return found
