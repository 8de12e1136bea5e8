"""Progress: what the holder of a message last said of how far it is."""

from __future__ import annotations

from typing import Any

from bee_core.disposition import Archive, Delete, Reschedule
from bee_core.errors import InvalidInput
from bee_core.stored import State
from bee_core.testing.conformance.harness import Conformance, Harness
from bee_core.testing.conformance.steps import (
    LONG,
    SHORT,
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


class Progress(Conformance):
    """Said with `extend`, shown by `get` and `scan`."""

    async def test_what_is_said_of_a_message_is_shown(self) -> None:
        async with self.harness() as h:
            for text in ("half", '1/2 "it\'s" {} \\ \n\t 日本 🐝', "x" * 200, "🐝" * 200):
                await send(h, text[:9].strip())
                before = await progress(h, text[:9].strip())

                await extend(h, await lease_one(h), progress=text)

                assert (None, text) == (before, await progress(h, text[:9].strip()))

    async def test_a_scan_shows_it_too(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b")
            a, _ = await lease(h)

            await extend(h, a, progress="half")
            page = await h.broker.scan(h.queue, State.LEASED)

            assert {"a": "half", "b": None} == {one.id: one.progress for one in page.items}

    async def test_of_many_each_has_its_own(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b", "c")
            receipts = [one.receipt for one in await lease(h)]

            said = {"a": "1", "c": "3"}
            lost = await h.broker.extend(h.queue, receipts, duration=60, progress=said)

            assert set() == lost
            assert ["1", None, "3"] == [await progress(h, id) for id in "abc"]

    async def test_it_stays_until_something_else_is_said(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            held = await lease_one(h)
            seen = []

            for text in ("1", None, "2"):
                await extend(h, held, progress=text)
                seen.append(await progress(h, "a"))

            assert ["1", "1", "2"] == seen

    async def test_only_what_is_extended_is_told(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b", draft(h, "c", after=LONG))
            a, b = await lease(h)

            said = {"a": "1", "b": "2", "c": "3", "nobody": "4"}
            await h.broker.extend(h.queue, [a.receipt], duration=60, progress=said)

            assert ["1", None, None] == [await progress(h, id) for id in "abc"]
            assert await end(h, b)

    async def test_a_lost_lease_says_nothing(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            stale = await lapse_one(h)
            held = await lease_one(h)
            await extend(h, held, progress="held")

            assert not await extend(h, stale, progress="stale")
            assert "held" == await progress(h, "a")
            await end(h, held, Reschedule())
            assert not await extend(h, held, progress="ended")
            assert "held" == await progress(h, "a")

    async def test_who_is_late_may_still_say_it(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            late = await lapse_one(h)

            assert await extend(h, late, progress="late")

            assert "late" == await progress(h, "a")

    async def test_it_stays_when_the_message_is_repeated_or_taken_over(self) -> None:
        for way in (Reschedule(), Reschedule(delay=0.001), Reschedule(front=True), None):
            async with self.harness() as h:
                await send(h, "a")
                held = await lease_one(h, units=SHORT)
                await extend(h, held, SHORT, progress="half")
                if way is not None:
                    await end(h, held, way)
                await h.advance(2 * SHORT)

                before = await progress(h, "a")
                await lease_one(h)

                assert ("half", "half") == (before, await progress(h, "a"))

    async def test_it_is_kept_in_the_archive_and_not_restored(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            held = await lease_one(h)
            await extend(h, held, progress="half")

            await end(h, held, Archive())
            before = await progress(h, "a")
            await h.broker.restore(h.queue, ["a"])

            assert ("half", None) == (before, await progress(h, "a"))

    async def test_a_new_life_of_an_id_begins_without_it(self) -> None:
        for way in (Delete(), Archive()):
            for successor in (False, True):
                async with self.harness() as h:
                    await send(h, "a")
                    held = await lease_one(h)
                    await extend(h, held, progress="half")
                    if successor:
                        await update(h, "a")

                    await end(h, held, way)
                    await send(h, "a")

                    assert None is await progress(h, "a")

    async def test_what_cannot_be_said_extends_nothing(self) -> None:
        bad: list[Any] = ["x" * 201, 1, 0.5, None, b"half"]
        async with self.harness() as h:
            await send(h, "a", "b")
            a, b = await lease(h)
            before = [await look(h, id) for id in "ab"]

            for text in bad:
                with refuses(InvalidInput, f"progress {text!r}"):
                    await h.broker.extend(
                        h.queue,
                        [a.receipt, b.receipt],
                        duration=2 * LONG * h.unit,
                        progress={"a": "half", "b": text},
                    )

            assert before == [await look(h, id) for id in "ab"]


async def progress(h: Harness, id: str) -> str | None:
    """How far a message is, by what was said of it."""
    return (await look(h, id)).progress
