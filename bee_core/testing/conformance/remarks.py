"""Remarks: what was noticed about a message while a lease of it lasted."""

from __future__ import annotations

from typing import Any

from bee_core.disposition import Reschedule
from bee_core.errors import InvalidInput
from bee_core.message import Lease, Note
from bee_core.testing.conformance.harness import Conformance, Harness
from bee_core.testing.conformance.history import history
from bee_core.testing.conformance.steps import (
    LONG,
    SHORT,
    end,
    extend,
    lapse_one,
    lease_one,
    look,
    refuses,
    send,
)

AGAIN = Reschedule()
NOTE = Note("failed", "Traceback: ...")


class Remarks(Conformance):
    """Said with `extend`: what was noticed while a lease lasted."""

    async def test_a_remark_is_shown_while_the_lease_lasts_and_then_in_the_history(self) -> None:
        async with self.harness() as h:
            for text in ("blocked", '"x"\n  File \\ {} 日本 🐝', "🐝" * 2000):
                id = text[:3].strip()
                await send(h, id)
                held = await lease_one(h)

                assert await remark(h, held, text)
                during = await look(h, id)
                await end(h, held, AGAIN)
                after = await look(h, id)
                await end(h, await lease_one(h))

                assert (text, None) == (during.remark, after.remark)
                assert [text] == [one.remark for one in after.history]

    async def test_the_last_one_counts_and_it_does_not_outlast_its_lease(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            held = await lease_one(h)
            await remark(h, held, "first")
            await remark(h, held, "second")
            await extend(h, held)
            await end(h, held, AGAIN)

            await end(h, await lease_one(h), AGAIN)

            assert ["second", None] == [one.remark for one in await history(h, "a")]

    async def test_it_goes_with_a_lease_that_is_taken_over(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            held = await lease_one(h, units=SHORT)
            await remark(h, held, "blocked", SHORT)
            await h.advance(2 * SHORT)

            await lease_one(h)

            stored = await look(h, "a")
            assert ["blocked"] == [one.remark for one in stored.history]
            assert None is stored.remark

    async def test_progress_and_remarks_do_not_disturb_each_other(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            held = await lease_one(h)
            await extend(h, held, progress="half")
            await remark(h, held, "blocked")
            both = await look(h, "a")
            await extend(h, held, progress="most")
            later = await look(h, "a")
            await end(h, held, AGAIN, note=NOTE)

            assert ("half", "blocked") == (both.progress, both.remark)
            assert ("most", "blocked") == (later.progress, later.remark)
            stored = await look(h, "a")
            assert ("most", NOTE, "blocked") == (
                stored.progress,
                stored.note,
                stored.history[0].remark,
            )

    async def test_a_lost_receipt_remarks_on_nothing(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            late = await lapse_one(h)
            await lease_one(h)
            before = await look(h, "a")

            applied = await remark(h, late, "late")

            assert not applied
            assert before == await look(h, "a")

    async def test_what_is_no_text_extends_nothing(self) -> None:
        bad: list[Any] = ["", "x" * 2001, 1, None, b"blocked", "\ud800"]
        async with self.harness() as h:
            await send(h, "a")
            held = await lease_one(h)
            before = await look(h, "a")

            for text in bad:
                with refuses(InvalidInput, f"remark {text!r}"):
                    await remark(h, held, text, 2 * LONG)

            assert before == await look(h, "a")


async def remark(h: Harness, held: Lease, text: str, units: float = LONG) -> bool:
    """Say what was noticed about one. Whether it applied."""
    said = {held.receipt.id: text}
    duration = units * h.unit
    return not await h.broker.extend(h.queue, [held.receipt], duration=duration, remarks=said)
