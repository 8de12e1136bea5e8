"""`scan`: every message of a state, page by page, each exactly once."""

from __future__ import annotations

from bee_core.disposition import Archive, Delete
from bee_core.message import Update
from bee_core.stored import State, Stored
from bee_core.testing.conformance.harness import Conformance, Harness
from bee_core.testing.conformance.steps import (
    LONG,
    draft,
    end,
    ids,
    lapse,
    lease,
    lease_one,
    send,
    update,
)


class Scanning(Conformance):
    """Order, pages, and change meanwhile."""

    async def test_a_scan_of_nothing_is_one_empty_page(self) -> None:
        async with self.harness() as h:
            for state in State:
                page = await h.broker.scan(h.queue, state)

                assert ([], None) == (list(page.items), page.after)

    async def test_a_scan_shows_each_message_as_get_does(self) -> None:
        async with self.harness() as h:
            await send(h, "archived", "leased", "ready", draft(h, "delayed", after=LONG))
            await end(h, await lease_one(h), Archive())
            await lease_one(h)

            for state in (State.READY, State.DELAYED, State.LEASED, State.ARCHIVED):
                page = await h.broker.scan(h.queue, state)

                assert [state.value] == ids(page.items)
                assert [await h.broker.get(h.queue, state.value)] == list(page.items)

    async def test_a_scan_shows_a_successor_as_it_will_be(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", b"old"), "b")
            await lease_one(h)
            await send(h, draft(h, "a", b"new", priority=2, headers={"k": "v"}, if_taken=Update()))

            (blocked,) = (await h.broker.scan(h.queue, State.BLOCKED)).items
            (leased,) = (await h.broker.scan(h.queue, State.LEASED)).items

            assert await h.broker.get(h.queue, "a") == leased
            assert ("a", State.BLOCKED, b"new") == (blocked.id, blocked.state, blocked.body)
            assert (2, {"k": "v"}) == (blocked.priority, dict(blocked.headers))

    async def test_ready_messages_are_in_the_order_they_will_be_leased(self) -> None:
        async with self.harness() as h:
            levels = {"c": 0, "a": 5, "e": 0, "b": -5, "d": 5}
            await send(h, *(draft(h, id, priority=p) for id, p in levels.items()))
            await lapse(h, 2)

            scanned = ids(await pages(h, State.READY, 2))

            assert ["a", "d", "c", "e", "b"] == scanned
            assert scanned == ids(await lease(h))

    async def test_delayed_messages_are_in_the_order_they_fall_due(self) -> None:
        async with self.harness() as h:
            delays = {"c": 300, "a": 100, "d": 400, "b": 200}
            await send(h, *(draft(h, id, after=units) for id, units in delays.items()))

            assert ["a", "b", "c", "d"] == ids(await pages(h, State.DELAYED, 3))

    async def test_delayed_messages_that_fall_due_together_are_in_order_of_priority(self) -> None:
        async with self.harness() as h:
            levels = {"c": 0, "a": 5, "d": -5, "b": 1}
            await send(h, *(draft(h, id, priority=p, after=LONG) for id, p in levels.items()))

            assert ["a", "b", "c", "d"] == ids(await pages(h, State.DELAYED, 3))

    async def test_leased_messages_are_in_the_order_their_leases_run_out(self) -> None:
        async with self.harness() as h:
            await send(h, "c", "a", "b")
            for units in (300, 100, 200):
                await lease_one(h, units=units)

            assert ["a", "b", "c"] == ids(await pages(h, State.LEASED, 2))

    async def test_archived_messages_are_newest_first(self) -> None:
        async with self.harness() as h:
            await send(h, "b", "c", "a")
            for held in reversed(await lease(h)):
                await end(h, held, Archive())
                await h.advance(1)

            assert ["b", "c", "a"] == ids(await pages(h, State.ARCHIVED, 2))

    async def test_pages_of_any_size_show_every_message_once(self) -> None:
        wanted = [f"{(n * 7) % 20:02}" for n in range(20)]
        async with self.harness() as h:
            await send(h, *wanted)

            for size in (1, 3, 10, 19, 20, 21):
                assert wanted == ids(await pages(h, State.READY, size)), size

    async def test_messages_alike_in_everything_are_still_seen_once(self) -> None:
        async with self.harness() as h:
            wanted = [f"{n:02}" for n in range(12)]
            await send(h, *(draft(h, id, after=LONG) for id in wanted))
            delayed = ids(await pages(h, State.DELAYED, 5))
            await h.broker.cancel(h.queue, wanted, to=Archive())
            archived = ids(await pages(h, State.ARCHIVED, 5))
            await h.broker.restore(h.queue, wanted)
            await lease(h)
            leased = ids(await pages(h, State.LEASED, 5))
            for id in wanted:
                await update(h, id)
            blocked = ids(await pages(h, State.BLOCKED, 5))

            assert wanted == sorted(delayed)
            assert wanted == sorted(archived)
            assert wanted == sorted(leased)
            assert wanted == sorted(blocked)

    async def test_the_last_page_says_so(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b", "c", "d")

            first = await h.broker.scan(h.queue, State.READY, limit=2)
            assert first.after is not None
            second = await h.broker.scan(h.queue, State.READY, after=first.after, limit=2)

            assert (["a", "b"], ["c", "d"]) == (ids(first.items), ids(second.items))
            if second.after is not None:  # a store may find out one page later
                third = await h.broker.scan(h.queue, State.READY, after=second.after, limit=2)
                assert ([], None) == (list(third.items), third.after)

    async def test_what_does_not_change_meanwhile_is_seen_exactly_once(self) -> None:
        async with self.harness() as h:
            steady = [f"steady {n}" for n in range(10)]
            fleeting = [f"fleeting {n}" for n in range(10)]
            await send(h, *(id for pair in zip(fleeting, steady, strict=True) for id in pair))

            seen: list[str] = []
            page = await h.broker.scan(h.queue, State.READY, limit=3)
            for turn in range(20):
                seen += ids(page.items)
                if page.after is None:
                    break
                if turn % 2:  # now there are more before the mark, now there are fewer
                    await send(h, *(draft(h, f"urgent {turn}{n}", priority=1) for n in "abc"))
                else:
                    gone = [f"fleeting {turn}", f"fleeting {turn + 1}"]
                    await h.broker.cancel(h.queue, gone, to=Delete())
                await send(h, f"late {turn}")
                page = await h.broker.scan(h.queue, State.READY, after=page.after, limit=3)

            assert steady == [id for id in seen if id in steady]
            assert len(set(seen)) == len(seen)

    async def test_a_page_can_be_read_again(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b", "c")

            first = await h.broker.scan(h.queue, State.READY, limit=1)
            rest = [
                ids((await h.broker.scan(h.queue, State.READY, after=first.after)).items)
                for _ in range(2)
            ]

            assert [["b", "c"], ["b", "c"]] == rest

    async def test_a_scan_shows_one_queue_only(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            await h.broker.send(h.other_queue, [draft(h, "b")])
            await h.broker.send(h.queue + "-a", [draft(h, "c")])

            assert ["a"] == ids(await pages(h, State.READY, 10))


async def pages(h: Harness, state: State, size: int) -> list[Stored]:
    """Everything in that state, read page by page."""
    found: list[Stored] = []
    after: str | None = None
    for _ in range(100):
        page = await h.broker.scan(h.queue, state, after=after, limit=size)
        assert len(page.items) <= size
        found += page.items
        after = page.after
        if after is None:
            return found
    raise AssertionError("the pages have no end")
