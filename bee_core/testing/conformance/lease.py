"""`lease`: one holder at a time, a token that is never used again, recovery without a sweeper."""

from __future__ import annotations

from bee_core.disposition import Archive, Reschedule
from bee_core.message import ZERO, Counters
from bee_core.stored import State
from bee_core.testing.conformance.harness import Conformance
from bee_core.testing.conformance.steps import (
    LONG,
    SHORT,
    Counts,
    clones,
    counts,
    draft,
    end,
    extend,
    ids,
    lapse,
    lapse_one,
    lease,
    lease_one,
    look,
    send,
)


class Leasing(Conformance):
    """Who holds a message, and for how long."""

    async def test_a_lease_shows_the_message_as_it_was_sent(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", b"hello", headers={"k": "v"}))
            stored = await look(h, "a")

            held = await lease_one(h)

            assert ("a", b"hello", {"k": "v"}) == (held.receipt.id, held.body, dict(held.headers))
            assert Counters(deliveries=1) == held.counters
            assert 0.001 > abs(stored.sent_at - held.sent_at)

    async def test_a_lease_says_when_it_was_taken(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            before = await look(h, "a")
            await h.advance(2)

            first = await lapse_one(h)
            await send(h, draft(h, "b", after=LONG))
            after = await look(h, "b")
            second = await lease_one(h)

            assert before.sent_at + h.unit < first.leased_at <= after.sent_at
            assert first.leased_at + SHORT * h.unit < second.leased_at

    async def test_a_lease_takes_no_more_than_it_was_asked_to(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b", "c")

            assert ["a", "b"] == ids(await lease(h, 2))
            assert Counts(ready=1, leased=2) == await counts(h)

    async def test_nothing_comes_from_a_queue_that_holds_nothing(self) -> None:
        async with self.harness() as h:
            assert [] == await lease(h)
            assert [] == await lease(h)
            assert Counts() == await counts(h)
            assert h.queue not in await h.broker.queues()

    async def test_a_held_message_is_hidden_from_everybody_else(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            await lease_one(h)

            assert [] == await lease(h)
            assert Counts(leased=1) == await counts(h)

    async def test_a_held_message_says_who_holds_it_and_until_when(self) -> None:
        async with self.harness() as h:
            await send(h, "a")

            await lease_one(h, units=LONG, holder="alice")
            stored = await look(h, "a")

            assert (State.LEASED, "alice") == (stored.state, stored.holder)
            assert stored.leased_until is not None
            assert SHORT > abs(stored.leased_until - stored.sent_at - LONG * h.unit) / h.unit

    async def test_a_lease_from_one_queue_leaves_another_alone(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            await h.broker.send(h.other_queue, [draft(h, "b")])

            assert ["a"] == ids(await lease(h))
            assert Counts(ready=1) == await counts(h, h.other_queue)

    async def test_tokens_of_one_call_are_distinct(self) -> None:
        async with self.harness() as h:
            await send(h, *(str(n) for n in range(20)))

            tokens = [one.receipt.token for one in await lease(h)]

            assert 20 == len(set(tokens))

    async def test_a_message_gets_a_greater_token_each_time(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            tokens = []

            for way in (Reschedule(), Reschedule(front=True), Reschedule()):
                held = await lease_one(h)
                tokens.append(held.receipt.token)
                await end(h, held, way)
            tokens += [one.receipt.token for one in await lapse(h)]
            tokens.append((await lease_one(h)).receipt.token)

            assert sorted(set(tokens)) == tokens

    async def test_a_token_is_not_used_again_for_the_next_life_of_an_id(self) -> None:
        async with self.harness() as h:
            tokens = []

            for _ in range(3):
                await send(h, "a")
                held = await lease_one(h)
                tokens.append(held.receipt.token)
                await end(h, held)

            assert sorted(set(tokens)) == tokens

    async def test_a_token_is_not_used_again_after_the_queue_was_dropped(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            before = await lease_one(h)
            await h.broker.drop(h.queue)
            await send(h, "a")
            after = await lease_one(h)

            assert before.receipt.token < after.receipt.token

    async def test_two_queues_never_give_the_same_token(self) -> None:
        async with self.harness() as h:
            tokens = []

            for n in range(5):
                for queue in (h.queue, h.other_queue):
                    await h.broker.send(queue, [draft(h, f"a{n}")])
                    (held,) = await h.broker.lease(queue, limit=1, duration=60, holder="w")
                    tokens.append(held.receipt.token)

            assert sorted(set(tokens)) == tokens

    async def test_clones_never_give_the_same_token(self) -> None:
        async with self.harness() as h, clones(h, 2) as brokers:
            await send(h, *(str(n) for n in range(6)))
            tokens = []

            for broker in [h.broker, *brokers] * 2:
                (held,) = await broker.lease(h.queue, limit=1, duration=60, holder="w")
                tokens.append(held.receipt.token)

            assert sorted(set(tokens)) == tokens

    async def test_every_lease_counts_a_delivery(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            seen = []

            for _ in range(3):
                held = await lease_one(h)
                seen.append(held.counters)
                await end(h, held, Reschedule())

            assert [Counters(deliveries=n) for n in (1, 2, 3)] == seen
            assert Counters(deliveries=3) == (await look(h, "a")).counters

    async def test_a_lease_that_ran_out_gives_the_message_to_the_next(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "a", b"hello"))
            first = await lapse_one(h)

            second = await lease_one(h, holder="bob")

            assert ("a", b"hello") == (second.receipt.id, second.body)
            assert first.receipt.token < second.receipt.token
            assert "bob" == (await look(h, "a")).holder

    async def test_a_lease_may_be_a_fraction_of_a_second(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            await lease_one(h, units=0.5)
            await h.advance(2)

            again = await lease_one(h)
            await extend(h, again, 0.5)
            await h.advance(2)

            assert ["a"] == ids(await lease(h))

    async def test_a_lease_that_ran_out_counts_one_stall(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            await lapse(h)
            await h.advance(3 * SHORT)  # how long ago does not matter

            second = await lapse_one(h)
            third = await lease_one(h)

            assert Counters(deliveries=2, stalls=1) == second.counters
            assert Counters(deliveries=3, stalls=2) == third.counters

    async def test_a_lease_that_was_settled_counts_no_stall(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            await end(h, await lapse_one(h), Reschedule())

            assert Counters(deliveries=2) == (await lease_one(h)).counters

    async def test_until_it_is_taken_over_a_lease_that_ran_out_leaves_no_trace(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            await lapse(h)

            stored = await look(h, "a")

            assert (State.READY, None) == (stored.state, stored.leased_until)
            assert Counters(deliveries=1) == stored.counters
            assert Counts(ready=1) == await counts(h)

    async def test_only_the_lease_that_ran_out_comes_back(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b", "c")
            steady = await lease_one(h)
            await lapse(h, 1)

            assert ["b", "c"] == ids(await lease(h))
            assert await end(h, steady)

    async def test_however_many_leases_ran_out_all_come_back(self) -> None:
        async with self.harness() as h:
            wanted = [str(n) for n in range(60)]
            await send(h, *wanted)
            await lapse(h)

            calls = [ids(await lease(h, 10)) for _ in range(6)]

            assert wanted == [id for call in calls for id in call]

    async def test_what_falls_due_together_is_given_out_once(self) -> None:
        async with self.harness() as h:
            await send(h, *(draft(h, str(n), after=SHORT) for n in range(5)))
            await h.advance(2 * SHORT)

            first, again = await lease(h), await lease(h)

            assert 5 == len(first)
            assert [] == again

    async def test_a_new_life_of_an_id_starts_without_the_counters_of_the_old(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            await lapse(h)
            await end(h, await lease_one(h), Archive(), counters=Counters(errors=1))
            await send(h, "a")

            assert ZERO == (await look(h, "a")).counters
