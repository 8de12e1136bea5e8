"""History: who has held a message before, and how each of those leases ended."""

from __future__ import annotations

from typing import Any

from bee_core.disposition import Archive, Delete, Disposition, Reschedule
from bee_core.errors import InvalidInput
from bee_core.message import Note, Settlement, Update
from bee_core.stored import HISTORY, Episode, State
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

AGAIN = Reschedule()
NOTE = Note("failed", "Traceback: ...")


class History(Conformance):
    """Shown by `get` and `scan`, and gone with the message."""

    async def test_a_message_that_waits_or_is_held_for_the_first_time_has_none(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b", draft(h, "c", after=LONG))
            await lease_one(h)

            assert [()] * 3 == [await history(h, id) for id in "abc"]

    async def test_an_episode_tells_who_held_it_and_how_that_ended(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            held = await lease_one(h, holder="ann 🐝:1")
            leased_at = (await look(h, "a")).leased_at

            await end(h, held, AGAIN, note=NOTE, summary='OSError: "disk" full 🐝')

            (episode,) = await history(h, "a")
            assert held.receipt.token == episode.token
            assert "ann 🐝:1" == episode.holder
            assert 0.001 > abs(episode.leased_at - held.leased_at)
            assert leased_at == episode.leased_at
            assert episode.leased_at <= episode.ended_at
            assert ("failed", 'OSError: "disk" full 🐝') == (episode.reason, episode.summary)
            assert None is episode.remark

    async def test_it_tells_when_the_message_was_to_be_ready_again(self) -> None:
        for way in (AGAIN, Reschedule(delay=5.0), Reschedule(front=True)):
            async with self.harness() as h:
                await send(h, "a")
                await end(h, await lease_one(h), way, note=NOTE)

                (episode,) = await history(h, "a")
                stored = await look(h, "a")

                assert episode.due_at is not None
                assert 0.001 > abs(stored.due_at - episode.due_at), way

    async def test_what_ends_without_a_note_was_ruled(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            await end(h, await lease_one(h), AGAIN, note=NOTE)

            await end(h, await lease_one(h), AGAIN)

            assert ["failed", "ruled"] == [one.reason for one in await history(h, "a")]

    async def test_a_lease_that_is_taken_over_has_stalled(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            late = await lapse_one(h)
            before = await history(h, "a")
            await lease_one(h, holder="heir")

            (episode,) = await history(h, "a")

            assert () == before
            assert (late.receipt.token, "sleeper") == (episode.token, episode.holder)
            assert ("stalled", "") == (episode.reason, episode.summary)
            assert episode.ended_at - episode.leased_at >= SHORT * h.unit
            assert "heir" == (await look(h, "a")).holder

    async def test_also_if_it_is_merged_with_its_successor(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            await lapse_one(h)
            await update(h, "a", rule=Update(run_at="never"))

            await lease_one(h)

            assert ["stalled"] == [one.reason for one in await history(h, "a")]

    async def test_a_lease_that_ran_out_and_is_settled_late_has_not_stalled(self) -> None:
        async with self.harness() as h:
            await send(h, "a")

            await end(h, await lapse_one(h), AGAIN, note=NOTE)

            assert ["failed"] == [one.reason for one in await history(h, "a")]

    async def test_episodes_stand_in_the_order_they_happened(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            for n in range(3):
                await end(h, await lease_one(h, holder=f"w{n}"), AGAIN, note=NOTE, summary=f"{n}")

            found = await history(h, "a")

            assert [("w0", "0"), ("w1", "1"), ("w2", "2")] == [(e.holder, e.summary) for e in found]
            assert sorted(e.token for e in found) == [e.token for e in found]

    async def test_only_the_last_ones_are_kept(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            for n in range(HISTORY + 2):
                await end(h, await lease_one(h), AGAIN, note=NOTE, summary=f"{n}")
            settled = await history(h, "a")
            await lapse_one(h)
            await lease_one(h)

            taken_over = await history(h, "a")

            expected = [str(n) for n in range(2, HISTORY + 2)]
            assert expected == [one.summary for one in settled]
            assert [*expected[1:], ""] == [one.summary for one in taken_over]

    async def test_an_archived_message_keeps_it_with_the_last_episode(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            await end(h, await lease_one(h, holder="ann"), AGAIN, note=NOTE)

            await end(h, await lease_one(h, holder="bob"), Archive(), note=Note("timed_out"))

            stored = await look(h, "a")
            found = [(one.holder, one.reason) for one in stored.history]
            assert [("ann", "failed"), ("bob", "timed_out")] == found
            assert None is stored.history[1].due_at
            assert (None, None) == (stored.leased_at, stored.remark)

    async def test_a_cancelled_lease_is_an_episode_and_a_message_that_waits_has_none(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b")
            await lease_one(h, holder="ann")

            await h.broker.cancel(h.queue, ["a", "b"], to=Archive())

            found = [(one.holder, one.reason, one.due_at) for one in await history(h, "a")]
            assert [("ann", "cancelled", None)] == found
            assert () == await history(h, "b")

    async def test_a_restored_message_goes_on_with_what_it_had(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            await end(h, await lease_one(h, holder="ann"), Archive(), note=NOTE, summary="boom")
            before = await history(h, "a")

            await h.broker.restore(h.queue, ["a"])
            restored = await history(h, "a")
            await end(h, await lease_one(h, holder="bob"), AGAIN)

            assert before == restored
            assert ["ann", "bob"] == [one.holder for one in await history(h, "a")]

    async def test_a_new_life_of_an_id_begins_without_a_history(self) -> None:
        for way in (Delete(), Archive()):
            for successor in (False, True):
                async with self.harness() as h:
                    await send(h, "a")
                    await end(h, await lease_one(h), AGAIN)
                    held = await lease_one(h)
                    if successor:
                        await update(h, "a")

                    await end(h, held, way)
                    await send(h, "a")

                    assert () == await history(h, "a"), (way, successor)

    async def test_an_update_of_a_message_that_waits_leaves_it(self) -> None:
        for rule in (Update(), Update(payload=False, reset_counts=True)):
            async with self.harness() as h:
                await send(h, "a")
                await end(h, await lease_one(h), AGAIN, note=NOTE)

                await update(h, "a", rule=rule)

                assert ["failed"] == [one.reason for one in await history(h, "a")]

    async def test_a_successor_that_is_merged_leaves_it(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            held = await lease_one(h, holder="ann")
            await update(h, "a")

            await end(h, held, AGAIN, note=NOTE)

            assert [("ann", "failed")] == [(e.holder, e.reason) for e in await history(h, "a")]

    async def test_a_scan_shows_the_history_too(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b", "c")
            a, b, _ = await lease(h)
            await end(h, a, Reschedule(front=True), note=NOTE)
            await end(h, b, Archive(), note=NOTE)

            pages = [await h.broker.scan(h.queue, s) for s in (State.READY, State.ARCHIVED)]

            shown = [[e.reason for e in one.history] for page in pages for one in page.items]
            assert [["failed"], ["failed"]] == shown

    async def test_a_lost_settlement_leaves_no_trace(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            late = await lapse_one(h)
            await lease_one(h)
            before = await look(h, "a")

            applied = await end(h, late, AGAIN, note=NOTE, summary="late")

            assert not applied
            assert before == await look(h, "a")

    async def test_a_message_is_leased_since_its_lease_began(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            waiting = await look(h, "a")
            held = await lease_one(h, units=SHORT)
            leased = await look(h, "a")
            await extend(h, held, SHORT)
            extended = await look(h, "a")
            await h.advance(2 * SHORT)
            lapsed = await look(h, "a")
            await end(h, held, AGAIN)

            assert None is waiting.leased_at
            assert leased.leased_at is not None
            assert 0.001 > abs(leased.leased_at - held.leased_at)
            assert leased.leased_at == extended.leased_at == lapsed.leased_at
            assert None is (await look(h, "a")).leased_at

    async def test_many_are_settled_at_once_each_with_its_own(self) -> None:
        async with self.harness() as h:
            await send(h, *"abcd")
            ways: list[Disposition] = [AGAIN, Archive(), Delete(), Reschedule(front=True)]
            held = [await lease_one(h, holder=f"w{n}") for n in range(4)]
            batch = [
                Settlement(one.receipt, way, Note("failed"), summary=f"s{n}")
                for n, (one, way) in enumerate(zip(held, ways, strict=True))
            ]

            assert set() == await h.broker.settle(h.queue, batch)

            found = {id: [(e.holder, e.summary) for e in await history(h, id)] for id in "abd"}
            assert {"a": [("w0", "s0")], "b": [("w1", "s1")], "d": [("w3", "s3")]} == found
            assert None is await h.broker.get(h.queue, "c")

    async def test_a_summary_is_one_short_line(self) -> None:
        bad: list[Any] = ["x" * 201, "two\nlines", "nul\0", 1]
        async with self.harness() as h:
            await send(h, "a")
            held = await lease_one(h)
            before = await look(h, "a")

            for text in bad:
                with refuses(InvalidInput, f"summary {text!r}"):
                    await end(h, held, AGAIN, note=NOTE, summary=text)

            assert before == await look(h, "a")
            assert await end(h, held, AGAIN, note=NOTE, summary="🐝" * 200)


async def history(h: Harness, id: str) -> tuple[Episode, ...]:
    """The episodes of a message."""
    return tuple((await look(h, id)).history)
