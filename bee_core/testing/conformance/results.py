"""`results`: how a message ended, for as long as it was to be kept."""

from __future__ import annotations

from bee_core.disposition import Archive, Delete, Disposition, Reschedule
from bee_core.message import Note, Report, Settlement
from bee_core.testing.conformance.harness import Conformance, Harness
from bee_core.testing.conformance.reports import EVERY_END, SUCCEEDED
from bee_core.testing.conformance.steps import (
    LONG,
    SHORT,
    draft,
    end,
    lapse_one,
    lease,
    lease_one,
    send,
    update,
)


class Results(Conformance):
    """Kept by the store's clock, apart from the message."""

    async def test_what_came_of_a_message_is_kept(self) -> None:
        for way in EVERY_END:
            async with self.harness() as h:
                note = Note("succeeded", 'it\'s "done" \\ {}\r\n\x00 日本 🐝')
                result = bytes(range(256))
                await send(h, "a")

                await end(h, await lease_one(h), way, note=note, result=result, keep=LONG)

                assert {"a": Report("a", note, result)} == await kept(h, "a")

    async def test_a_failure_is_kept_like_a_success(self) -> None:
        async with self.harness() as h:
            await send(h, "a")

            note = Note("failed", "ValueError")
            await end(h, await lease_one(h), Archive(), note=note, keep=LONG)

            assert {"a": Report("a", note)} == await kept(h, "a")

    async def test_an_end_without_a_note_is_kept_as_ruled(self) -> None:
        async with self.harness() as h:
            await send(h, "a")

            await end(h, await lease_one(h), result=b"1", keep=LONG)

            assert {"a": Report("a", Note("ruled"), b"1")} == await kept(h, "a")

    async def test_a_large_result_is_kept(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            result = b"\x00\xff" * 500_000

            await end(h, await lease_one(h), note=SUCCEEDED, result=result, keep=LONG)

            assert {"a": Report("a", SUCCEEDED, result)} == await kept(h, "a")

    async def test_nothing_is_kept_unless_it_is_asked_for(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b")
            a, _ = await lease(h)

            await end(h, a, note=SUCCEEDED, result=b"1")
            await h.broker.cancel(h.queue, ["b"], to=Archive())

            assert {} == await kept(h, "a", "b")

    async def test_what_is_kept_is_gone_when_its_time_is_over(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b")
            a, b = await lease(h)

            await end(h, a, note=SUCCEEDED, keep=SHORT)
            await end(h, b, note=SUCCEEDED, keep=LONG)
            await h.advance(2 * SHORT)

            assert {"b": Report("b", SUCCEEDED)} == await kept(h, "a", "b")

    async def test_the_last_end_that_was_kept_counts(self) -> None:
        async with self.harness() as h:
            for result in (b"1", b"2"):
                await send(h, "a")
                await end(h, await lease_one(h), note=SUCCEEDED, result=result, keep=LONG)
            await send(h, "a")
            await end(h, await lease_one(h), note=Note("failed"), result=b"3")

            assert {"a": Report("a", SUCCEEDED, b"2")} == await kept(h, "a")

    async def test_each_end_is_kept_for_its_own_time(self) -> None:
        for first, second, wanted in ((SHORT, LONG, ["a"]), (LONG, SHORT, [])):
            async with self.harness() as h:
                for units in (first, second):
                    await send(h, "a")
                    await end(h, await lease_one(h), keep=units)
                await h.advance(2 * SHORT)

                await send(h, "b")  # whatever tidies up, may do so now
                await end(h, await lease_one(h), keep=LONG)

                assert wanted == list(await kept(h, "a"))

    async def test_a_repeat_keeps_nothing(self) -> None:
        ways: list[Disposition] = [Reschedule(), Reschedule(delay=60), Reschedule(front=True)]
        for way in ways:
            async with self.harness() as h:
                await send(h, "a")

                await end(h, await lease_one(h), way, note=SUCCEEDED, result=b"1", keep=LONG)

                assert {} == await kept(h, "a")

    async def test_a_lost_lease_keeps_nothing(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            stale = await lapse_one(h)
            held = await lease_one(h)

            assert not await end(h, stale, result=b"stale", keep=LONG)
            before = await kept(h, "a")
            assert await end(h, held, note=SUCCEEDED, result=b"held", keep=LONG)
            assert not await end(h, held, result=b"twice", keep=LONG)

            assert {} == before
            assert {"a": Report("a", SUCCEEDED, b"held")} == await kept(h, "a")

    async def test_what_is_kept_outlives_the_message(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            await end(h, await lease_one(h), Archive(), note=SUCCEEDED, keep=LONG)
            wanted = {"a": Report("a", SUCCEEDED)}

            await h.broker.prune(h.queue)
            assert wanted == await kept(h, "a")
            await send(h, "a")
            assert wanted == await kept(h, "a")
            await h.broker.purge(h.queue)
            assert wanted == await kept(h, "a")
            await send(h, "a")
            await h.broker.cancel(h.queue, ["a"], to=Delete())
            assert wanted == await kept(h, "a")

    async def test_what_is_kept_stays_if_a_successor_follows(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            held = await lease_one(h)
            await update(h, "a")

            await end(h, held, note=SUCCEEDED, result=b"1", keep=LONG)

            assert {"a": Report("a", SUCCEEDED, b"1")} == await kept(h, "a")

    async def test_dropping_a_queue_takes_what_was_kept(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            await end(h, await lease_one(h), keep=LONG)

            await h.broker.drop(h.queue)

            assert {} == await kept(h, "a")

    async def test_of_many_each_is_kept(self) -> None:
        async with self.harness() as h:
            wanted = [f"m{n}" for n in range(50)]
            await send(h, *wanted)
            ends = [
                Settlement(one.receipt, Delete(), SUCCEEDED, result=one.receipt.id.encode())
                for one in await lease(h)
            ]
            every_second = [
                Settlement(one.receipt, one.disposition, one.note, result=one.result, keep=3600)
                if n % 2
                else one
                for n, one in enumerate(ends)
            ]

            await h.broker.settle(h.queue, every_second)

            found = await kept(h, *wanted, "nobody", "m1")
            assert {id: Report(id, SUCCEEDED, id.encode()) for id in wanted[1::2]} == found

    async def test_what_is_kept_in_one_queue_is_not_found_in_another(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            await end(h, await lease_one(h), keep=LONG)

            assert {} == dict(await h.broker.results(h.other_queue, ["a"]))

    async def test_what_is_kept_is_found_by_every_clone(self) -> None:
        async with self.harness() as h, h.broker.clone() as clone:
            await send(h, draft(h, "a"))
            await end(h, await lease_one(h), note=SUCCEEDED, keep=LONG)

            assert {"a": Report("a", SUCCEEDED)} == dict(await clone.results(h.queue, ["a"]))


async def kept(h: Harness, *wanted: str) -> dict[str, Report]:
    """What is kept of these."""
    return dict(await h.broker.results(h.queue, wanted))
