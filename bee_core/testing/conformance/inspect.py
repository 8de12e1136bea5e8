"""Looking at a queue without touching it: queues, stats, get, workers."""

from __future__ import annotations

from bee_core.disposition import Archive, Reschedule
from bee_core.message import Note
from bee_core.stored import QueueStats, State
from bee_core.testing.conformance.harness import Conformance
from bee_core.testing.conformance.steps import (
    LONG,
    draft,
    end,
    extend,
    lapse,
    lease,
    lease_one,
    look,
    send,
    update,
)


class Inspecting(Conformance):
    """What an operator sees is what there is."""

    async def test_a_queue_is_listed_while_it_holds_something(self) -> None:
        async with self.harness() as h:
            seen = [h.queue in await h.broker.queues()]
            await send(h, draft(h, "a", after=LONG))
            seen.append(h.queue in await h.broker.queues())
            await update(h, "a")
            held = await lease_one(h)
            seen.append(h.queue in await h.broker.queues())
            await end(h, held, Archive())
            seen.append(h.queue in await h.broker.queues())
            await h.broker.prune(h.queue)
            seen.append(h.queue in await h.broker.queues())

            assert [False, True, True, True, False] == seen

    async def test_a_queue_is_listed_while_it_is_paused(self) -> None:
        async with self.harness() as h:
            await h.broker.pause(h.queue)
            paused = h.queue in await h.broker.queues()
            await h.broker.resume(h.queue)

            assert paused
            assert h.queue not in await h.broker.queues()

    async def test_queues_are_listed_once_each_and_sorted(self) -> None:
        async with self.harness() as h:
            ours = [h.queue + end for end in ("-b", "", "-a", "_", "-b-c")]
            for name in ours:
                await h.broker.send(name, [draft(h, "a"), draft(h, "b")])
                await h.broker.lease(name, limit=1, duration=60, holder="w")

            listed = list(await h.broker.queues())

            assert sorted(listed) == listed
            assert sorted(ours) == [name for name in listed if name in ours]

    async def test_a_queue_that_holds_nothing_has_stats_of_nothing(self) -> None:
        async with self.harness() as h:
            stats = await h.broker.stats(h.queue)
            assert QueueStats(token=stats.token) == stats

    async def test_stats_count_every_state(self) -> None:
        async with self.harness() as h:
            await send(h, *(str(n) for n in range(6)))
            a, b, c, d, *_ = await lease(h, 5)
            await end(h, a, Archive(), note=Note("failed"))
            await end(h, b, Archive(), note=Note("failed", "detail does not matter"))
            await end(h, c, Archive(), note=Note("succeeded"))
            await end(h, d, Reschedule())
            await update(h, "4")
            await send(h, *(draft(h, f"later {n}", after=LONG) for n in range(3)))
            await h.broker.pause(h.queue)

            stats = await h.broker.stats(h.queue)

            assert (2, 3, 1, 1) == (stats.ready, stats.delayed, stats.leased, stats.blocked)
            assert 7 == stats.live
            assert {"failed": 2, "succeeded": 1} == dict(stats.archived)
            assert stats.paused

    async def test_stats_say_how_long_the_first_has_been_waiting(self) -> None:
        async with self.harness() as h:
            await send(h, "a", draft(h, "urgent", priority=1), draft(h, "late", after=LONG))
            await h.advance(10)
            await send(h, "b")

            waiting = (await h.broker.stats(h.queue)).oldest_due
            await lease(h)
            nothing = (await h.broker.stats(h.queue)).oldest_due

            assert waiting is not None
            assert 9 < waiting / h.unit < 30
            assert nothing is None

    async def test_a_delayed_message_waits_from_when_it_is_due(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", after=15))
            hidden = (await h.broker.stats(h.queue)).oldest_due
            await h.advance(17)

            waiting = (await h.broker.stats(h.queue)).oldest_due

            assert hidden is None
            assert waiting is not None
            assert 1 < waiting / h.unit < 12

    async def test_of_those_that_wait_for_a_key_too_the_longest_due_counts(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "held", key="k"), draft(h, "old", key="k"))
            await lease_one(h)
            await h.advance(10)
            await send(h, draft(h, "urgent", key="k", priority=1))
            assert [] == await lease(h)  # both are passed over

            waiting = (await h.broker.stats(h.queue)).oldest_due

            assert waiting is not None
            assert 9 < waiting / h.unit < 30

    async def test_a_lease_that_ran_out_counts_as_ready(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b")
            await lapse(h, 1)

            stats = await h.broker.stats(h.queue)

            assert (2, 0) == (stats.ready, stats.leased)
            assert [] == list(await h.broker.workers(h.queue))

    async def test_looking_changes_nothing(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b")
            held = await lease_one(h)
            before = [await look(h, id) for id in ("a", "b")]

            await h.broker.stats(h.queue)
            await h.broker.workers(h.queue)
            await h.broker.queues()
            for state in State:
                await h.broker.scan(h.queue, state)

            assert before == [await look(h, id) for id in ("a", "b")]
            assert await end(h, held)

    async def test_a_message_can_be_found_in_any_state(self) -> None:
        async with self.harness() as h:
            await send(h, "archived", "leased", "lapsed", draft(h, "delayed", after=LONG))
            archived = await lease_one(h)
            await end(h, archived, Archive())
            await lease_one(h)
            await lapse(h, 1)
            await send(h, "ready")

            names = ("archived", "leased", "lapsed", "delayed", "ready")
            states = [(await look(h, id)).state for id in names]

            assert [
                State.ARCHIVED,
                State.LEASED,
                State.READY,
                State.DELAYED,
                State.READY,
            ] == states

    async def test_what_is_not_there_is_not_found(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            await h.broker.send(h.other_queue, [draft(h, "b")])

            found = [await h.broker.get(h.queue, id) for id in ("b", "A", "a*", "%")]

            assert [None] * 4 == found

    async def test_workers_are_listed_by_name_with_what_they_hold(self) -> None:
        async with self.harness() as h:
            await send(h, *(str(n) for n in range(6)))
            await lease(h, 2, holder="zoë 🐝:1")
            await lease(h, 1, holder="bob")
            await lease(h, 1, holder="zoë 🐝:1")

            found = await h.broker.workers(h.queue)

            assert [("bob", 1), ("zoë 🐝:1", 3)] == [(one.name, one.leases) for one in found]

    async def test_a_worker_is_listed_with_its_first_lease_to_run_out(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b")
            await lease(h, 1, units=LONG)
            await lease(h, 1, units=LONG / 2)
            first = await look(h, "b")

            (worker,) = await h.broker.workers(h.queue)

            assert first.leased_until is not None
            assert worker.leased_until is not None
            assert 0.001 > abs(first.leased_until - worker.leased_until)

    async def test_a_worker_that_holds_nothing_is_not_listed(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b", "c")
            a, b, c = [await lease_one(h, holder=name) for name in ("ann", "bob", "cid")]

            await end(h, a)
            await end(h, b, Reschedule())
            await extend(h, c)

            assert ["cid"] == [one.name for one in await h.broker.workers(h.queue)]
            assert [] == list(await h.broker.workers(h.other_queue))
