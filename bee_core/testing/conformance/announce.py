"""Announcements: who works on a queue, also while it has nothing to do."""

from __future__ import annotations

from typing import Any

from bee_core.errors import InvalidInput
from bee_core.stored import Holder
from bee_core.testing.conformance.harness import Conformance, Harness
from bee_core.testing.conformance.steps import (
    LONG,
    SHORT,
    clones,
    end,
    lease,
    lease_one,
    look,
    refuses,
    send,
)


class Announcing(Conformance):
    """Said with `announce`, shown by `workers`."""

    async def test_who_has_announced_itself_is_listed_with_what_it_says(self) -> None:
        async with self.harness() as h:
            for about in ("", "{}", '"x"\n \\ 日本 🐝', "🐝" * 2000):
                await announce(h, "ann 🐝:1", about)

                (worker,) = await h.broker.workers(h.queue)

                assert ("ann 🐝:1", 0, None) == (worker.name, worker.leases, worker.leased_until)
                assert about == worker.about
                assert worker.since is not None
                assert worker.until is not None
                assert 0.001 > abs(worker.until - worker.since - LONG * h.unit) or about

    async def test_it_is_there_since_it_said_so_first(self) -> None:
        async with self.harness() as h:
            await announce(h, "ann", "first")
            (before,) = await h.broker.workers(h.queue)
            await h.advance(SHORT)

            await announce(h, "ann", "second")

            (after,) = await h.broker.workers(h.queue)
            assert ("second", before.since) == (after.about, after.since)
            assert before.until is not None
            assert after.until is not None
            assert after.until > before.until

    async def test_one_that_is_silent_for_too_long_is_gone_and_comes_back_as_a_new_one(
        self,
    ) -> None:
        async with self.harness() as h:
            await announce(h, "ann", units=SHORT)
            await announce(h, "bob")
            before = {one.name: one.since for one in await h.broker.workers(h.queue)}
            await h.advance(2 * SHORT)
            silent = await names(h)

            await announce(h, "ann")

            after = {one.name: one.since for one in await h.broker.workers(h.queue)}
            assert (["bob"], ["ann", "bob"]) == (silent, list(after))
            assert after["ann"] is not None
            assert before["ann"] is not None
            assert after["ann"] > before["ann"]
            assert after["bob"] == before["bob"]

    async def test_one_that_leaves_is_gone_at_once(self) -> None:
        async with self.harness() as h:
            await announce(h, "ann")
            await announce(h, "bob")

            await announce(h, "ann", units=0)
            await announce(h, "nobody", units=0)

            assert ["bob"] == await names(h)

    async def test_one_that_holds_leases_and_has_announced_itself_is_listed_once(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b", "c")
            await lease(h, 2, holder="bob")
            held = await lease_one(h, holder="ann")
            await announce(h, "bob", "me")
            stored = await look(h, "c")

            found = await h.broker.workers(h.queue)

            assert [("ann", 1, ""), ("bob", 2, "me")] == [
                (w.name, w.leases, w.about) for w in found
            ]
            assert (None, None) == (found[0].since, found[0].until)
            assert stored.leased_until is not None
            assert found[0].leased_until is not None
            assert 0.001 > abs(stored.leased_until - found[0].leased_until)
            await end(h, held)
            assert ["bob"] == await names(h)

    async def test_an_announcement_that_ran_out_leaves_its_leases_listed(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            await lease_one(h, holder="ann")
            await announce(h, "ann", "me", units=SHORT)
            await h.advance(2 * SHORT)

            (worker,) = await h.broker.workers(h.queue)

            assert Holder("ann", 1, worker.leased_until) == worker

    async def test_each_queue_has_its_own(self) -> None:
        async with self.harness() as h:
            await announce(h, "ann")

            assert [] == list(await h.broker.workers(h.other_queue))

    async def test_it_makes_no_queue_and_no_message(self) -> None:
        async with self.harness() as h:
            await announce(h, "ann")

            assert h.queue not in await h.broker.queues()
            assert 0 == (await h.broker.stats(h.queue)).live
            assert [] == await lease(h)

    async def test_every_client_of_the_store_sees_it(self) -> None:
        async with self.harness() as h, clones(h, 2) as (one, other):
            duration = LONG * h.unit
            await one.announce(h.queue, "ann", about="me", duration=duration)

            assert ["me"] == [worker.about for worker in await other.workers(h.queue)]

    async def test_a_dropped_queue_forgets_them(self) -> None:
        async with self.harness() as h:
            await announce(h, "ann")

            await h.broker.drop(h.queue)

            assert [] == await names(h)

    async def test_a_hundred_are_listed_by_name(self) -> None:
        async with self.harness() as h:
            for n in reversed(range(100)):
                await announce(h, f"w{n:03}", str(n))

            found = await h.broker.workers(h.queue)

            assert [(f"w{n:03}", str(n)) for n in range(100)] == [(w.name, w.about) for w in found]

    async def test_what_cannot_be_announced_changes_nothing(self) -> None:
        bad: list[tuple[Any, Any, Any]] = [
            ("", "", 1),
            ("nul\0", "", 1),
            ("ann", "x" * 2001, 1),
            ("ann", 1, 1),
            ("ann", "\ud800", 1),
            ("ann", "", -1),
            ("ann", "", float("nan")),
        ]
        async with self.harness() as h:
            for holder, about, duration in bad:
                with refuses(InvalidInput, f"announce {holder!r:.20} {about!r:.20} {duration}"):
                    await h.broker.announce(h.queue, holder, about=about, duration=duration)

            assert [] == await names(h)


async def announce(h: Harness, holder: str, about: str = "", *, units: float = LONG) -> None:
    """Say that somebody works on the queue for so many units."""
    await h.broker.announce(h.queue, holder, about=about, duration=units * h.unit)


async def names(h: Harness) -> list[str]:
    """Who works on the queue."""
    return [one.name for one in await h.broker.workers(h.queue)]
