"""Many at once: clients, clones, threads, and calls that are cancelled half way."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import TypeVar

from bee_core.broker import Store
from bee_core.disposition import Archive, Delete, Reschedule
from bee_core.errors import IdTaken
from bee_core.message import THROTTLE, Counters, Lease, Reject, Sent, Settlement, Throttle, Update
from bee_core.stored import State
from bee_core.testing.conformance.harness import Conformance, Harness
from bee_core.testing.conformance.scan import pages
from bee_core.testing.conformance.steps import (
    LONG,
    SHORT,
    Counts,
    clones,
    counts,
    draft,
    end,
    ids,
    lapse,
    lease,
    look,
    send,
)

T = TypeVar("T")

CLIENTS = 8


class Together(Conformance):
    """Nobody gets what another has, and nothing is lost between them."""

    async def test_many_clients_lease_each_message_once(self) -> None:
        async with self.harness() as h, clones(h, CLIENTS) as brokers:
            wanted = [str(n) for n in range(500)]
            await send(h, *wanted)

            taken = await asyncio.gather(*(take_all(h, broker) for broker in brokers))
            rest = ids(await lease(h, 500))

            assert Counter(wanted) == Counter(rest + [id for some in taken for id in some])

    async def test_many_who_prune_at_once_keep_the_newest(self) -> None:
        async with self.harness() as h, clones(h, CLIENTS) as brokers:
            await send(h, *(f"m{n:02}" for n in range(60)))
            for held in await lease(h, 60):
                await end(h, held, Archive())

            gone = await asyncio.gather(*(b.prune(h.queue, keep=5) for b in brokers))

            kept = (await h.broker.scan(h.queue, State.ARCHIVED)).items
            assert [f"m{n:02}" for n in range(59, 54, -1)] == [one.id for one in kept]
            assert 55 == sum(gone)

    async def test_many_threads_lease_each_message_once(self) -> None:
        async with self.harness() as h:
            wanted = [str(n) for n in range(200)]
            await send(h, *wanted)

            taken = await asyncio.gather(
                *(in_thread(take_all_and_close(h, h.broker.clone())) for _ in range(4))
            )
            rest = ids(await lease(h, 200))

            assert Counter(wanted) == Counter(rest + [id for some in taken for id in some])

    async def test_many_clients_take_over_each_lease_once(self) -> None:
        async with self.harness() as h, clones(h, CLIENTS) as brokers:
            wanted = [str(n) for n in range(100)]
            await send(h, *wanted)
            await lapse(h)

            taken = await asyncio.gather(*(take_all(h, broker) for broker in brokers))
            rest = ids(await lease(h))

            assert Counter(wanted) == Counter(rest + [id for some in taken for id in some])
            stalls = [(await look(h, id)).counters.stalls for id in wanted]
            assert [1] * 100 == stalls

    async def test_one_broker_may_be_used_by_many_tasks(self) -> None:
        async with self.harness() as h:
            sent = await asyncio.gather(*(send(h, str(n)) for n in range(50)))

            leases = [
                one
                for some in await asyncio.gather(*(lease(h, 5) for _ in range(10)))
                for one in some
            ]
            applied = await asyncio.gather(*(end(h, one) for one in leases))

            assert [[Sent.CREATED]] * 50 == sent
            assert Counter(str(n) for n in range(50)) == Counter(ids(leases))
            assert [True] * 50 == applied
            assert Counts() == await counts(h)

    async def test_many_clients_settle_each_lease_once(self) -> None:
        async with self.harness() as h, clones(h, CLIENTS) as brokers:
            await send(h, *(str(n) for n in range(50)))
            leases = await lease(h)
            more = Counters(errors=1)
            settlements = [Settlement(one.receipt, Reschedule(), None, more) for one in leases]

            answers = await asyncio.gather(*(b.settle(h.queue, settlements) for b in brokers))

            applied = [one.receipt for lost in answers for one in leases if one.receipt not in lost]
            assert Counter(one.receipt for one in leases) == Counter(applied)
            errors = [stored.counters.errors for stored in await pages(h, State.READY, 100)]
            assert [1] * 50 == errors

    async def test_many_clients_send_each_id_once(self) -> None:
        async with self.harness() as h, clones(h, CLIENTS) as brokers:
            wanted = [str(n) for n in range(50)]
            drafts = [draft(h, id) for id in wanted]
            turned = [drafts[n:] + drafts[:n] for n in range(0, 40, 5)]

            answers = await asyncio.gather(
                *(b.send(h.queue, some) for b, some in zip(brokers, turned, strict=True))
            )

            outcomes = Counter(sent for some in answers for sent in some)
            assert {Sent.CREATED: 50, Sent.KEPT: 350} == outcomes
            assert Counter(wanted) == Counter(ids(await lease(h)))

    async def test_of_many_who_insist_on_an_id_one_gets_it(self) -> None:
        async with self.harness() as h, clones(h, CLIENTS) as brokers:
            batch = [draft(h, "a", if_taken=Reject()), draft(h, "b", if_taken=Reject())]

            async def insist(broker: Store) -> bool:
                try:
                    await broker.send(h.queue, batch)
                except IdTaken:
                    return False
                return True

            answers = await asyncio.gather(*(insist(broker) for broker in brokers))

            assert 1 == answers.count(True)
            assert Counts(ready=2) == await counts(h)

    async def test_of_many_updates_of_a_held_message_one_successor_is_left(self) -> None:
        async with self.harness() as h, clones(h, CLIENTS) as brokers:
            await send(h, "a")
            (held,) = await lease(h)
            change = [draft(h, "a", b"new", if_taken=Update())]

            answers = await asyncio.gather(*(b.send(h.queue, change) for b in brokers))

            assert [[Sent.BLOCKED]] * CLIENTS == [list(some) for some in answers]
            assert Counts(leased=1, blocked=1) == await counts(h)
            await end(h, held)
            assert ["a"] == ids(await lease(h))

    async def test_of_many_who_restore_a_message_one_does(self) -> None:
        async with self.harness() as h, clones(h, CLIENTS) as brokers:
            await send(h, "a")
            await h.broker.cancel(h.queue, ["a"], to=Archive())

            answers = await asyncio.gather(*(b.restore(h.queue, ["a"]) for b in brokers))

            assert 1 == answers.count(set())
            assert Counts(ready=1) == await counts(h)

    async def test_work_flows_while_senders_and_workers_overlap(self) -> None:
        async with self.harness() as h, clones(h, CLIENTS) as brokers:
            total, done = 200, Counter[str]()

            async def produce(broker: Store, first: int) -> None:
                for n in range(first, total, 4):
                    await broker.send(h.queue, [draft(h, str(n))])
                    await asyncio.sleep(0)

            async def consume(broker: Store) -> None:
                for _ in range(10 * total):
                    leases = await take(h, broker, 3)
                    ends = [Settlement(one.receipt, Delete()) for one in leases]
                    assert set() == await broker.settle(h.queue, ends)
                    done.update(ids(leases))
                    if done.total() >= total:
                        return
                    await asyncio.sleep(0)

            await asyncio.gather(
                *(produce(broker, first) for first, broker in enumerate(brokers[:4])),
                *(consume(broker) for broker in brokers[4:]),
            )

            assert Counter(str(n) for n in range(total)) == done
            assert Counts() == await counts(h)

    async def test_stats_show_one_moment_however_much_moves(self) -> None:
        async with self.harness() as h, clones(h, 4) as brokers:
            await send(h, *(str(n) for n in range(40)))

            async def move(broker: Store) -> None:
                for _ in range(10):
                    way = Reschedule(delay=LONG * h.unit)
                    ends = [Settlement(one.receipt, way) for one in await take(h, broker, 2)]
                    await broker.settle(h.queue, ends)
                    await asyncio.sleep(0)

            async def watch() -> list[int]:
                seen = []
                for _ in range(20):
                    seen.append((await h.broker.stats(h.queue)).live)
                    await asyncio.sleep(0)
                return seen

            seen, *_ = await asyncio.gather(watch(), *(move(broker) for broker in brokers))

            assert [40] * 20 == seen

    async def test_a_clone_in_another_thread_sees_the_same_store(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            clone = h.broker.clone()

            async def elsewhere() -> list[Lease]:
                async with clone:
                    await clone.send(h.queue, [draft(h, "b")])
                    return await take(h, clone, 1)

            (held,) = await in_thread(elsewhere())

            assert "a" == held.receipt.id
            assert Counts(ready=1, leased=1) == await counts(h)
            assert await end(h, held)
            assert ["b"] == ids(await lease(h))

    async def test_a_clone_in_another_thread_can_keep_a_lease_alive(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            (held,) = await lease(h, units=SHORT)
            clone = h.broker.clone()

            async def beat() -> bool:
                async with clone:
                    return not await clone.extend(h.queue, [held.receipt], duration=LONG * h.unit)

            assert await in_thread(beat())
            await h.advance(2 * SHORT)

            assert [] == await lease(h)


async def take(
    h: Harness,
    broker: Store,
    limit: int,
    units: float = LONG,
    *,
    throttle: Throttle = THROTTLE,
) -> list[Lease]:
    """Lease through one broker of several."""
    leases = await broker.lease(
        h.queue, limit=limit, duration=units * h.unit, holder="w", throttle=throttle
    )
    return list(leases)


async def take_all(h: Harness, broker: Store) -> list[str]:
    """Lease until there is no more, giving way to others in between."""
    taken: list[str] = []
    for _ in range(1000):
        leases = await take(h, broker, 7)
        if not leases:
            return taken
        taken += ids(leases)
        await asyncio.sleep(0)
    raise AssertionError("lease gives out what is held")


async def take_all_and_close(h: Harness, broker: Store) -> list[str]:
    async with broker:
        return await take_all(h, broker)


async def in_thread(work: Coroutine[object, object, T]) -> T:
    """Do the work in another thread, in an event loop of its own."""
    return await asyncio.to_thread(_run, work)


def _run(work: Coroutine[object, object, T]) -> T:
    with asyncio.Runner() as runner:
        return runner.run(_as_task(work))


async def _as_task(work: Coroutine[object, object, T]) -> T:
    return await work
