"""`adopt` in a queue that lives: tokens, counts, keys, pauses; and what it refuses."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import msgspec

from bee_core.disposition import Archive
from bee_core.errors import InvalidInput, InvalidOption
from bee_core.message import Counters, Note, Report
from bee_core.stored import State
from bee_core.testing.conformance.foreign import (
    DIARY,
    adopt,
    archived,
    delayed,
    everything,
    expel,
    foreign,
    rich,
    taken,
)
from bee_core.testing.conformance.harness import Conformance
from bee_core.testing.conformance.keys import in_turn
from bee_core.testing.conformance.steps import (
    Counts,
    clones,
    counts,
    draft,
    end,
    ids,
    lapse_one,
    lease,
    lease_one,
    look,
    refuses,
    send,
)

ARCHIVE = Archive()

BAD_FIELDS: dict[str, dict[str, Any]] = {
    "leased": {"state": State.LEASED, "token": 1, "leased_until": 9e9, "leased_at": 1.0},
    "leased, as it says": {"state": State.LEASED},
    "blocked": {"state": State.BLOCKED},
    "a lease that ran out": {"token": 1},
    "a lease that began": {"leased_at": 1.0},
    "a lease that ends": {"leased_until": 9e9},
    "archived, and not": {"state": State.ARCHIVED},
    "not archived, and when": {"archived_at": 1.0},
    "id": {"id": "a\n"},
    "body": {"body": "text"},
    "headers": {"headers": {"n": 1}},
    "priority": {"priority": 10},
    "key": {"key": ""},
    "awaits": {"awaits": -1},
    "reports_to": {"reports_to": "\0"},
    "negative counter": {"counters": Counters(errors=-1)},
    "large counter": {"counters": Counters(errors=2**31)},
    "holder": {"holder": ""},
    "reason": {"note": Note("bored")},  # type: ignore[arg-type]
    "progress": {"progress": "x" * 201},
    "sent": {"sent_at": -1.0},
    "never sent": {"sent_at": math.nan},
    "due": {"due_at": math.inf},
    "when": {"due_at": "now"},
    "long history": {"history": (*DIARY, DIARY[0])},
    "history": {"history": (msgspec.structs.replace(DIARY[0], ended_at=math.nan),)},
    "token in the history": {"history": (msgspec.structs.replace(DIARY[0], token=-1),)},
    "summary in the history": {"history": (msgspec.structs.replace(DIARY[0], summary="\n"),)},
}


class AdoptingManners(Conformance):
    """What else is true once a message was taken in, and what is never taken in."""

    async def test_tokens_go_on_beyond_those_of_the_other_store(self) -> None:
        async with self.harness() as h:
            beyond = (await h.broker.stats(h.queue)).token + 12_345
            await adopt(h, await foreign(h, "a"), beyond=beyond)
            await send(h, "b")

            tokens = [held.receipt.token for held in await lease(h)]

            assert beyond < min(tokens)
            assert max(tokens) <= (await h.broker.stats(h.queue)).token

    async def test_tokens_go_on_beyond_also_if_nothing_is_adopted(self) -> None:
        async with self.harness() as h:
            beyond = (await h.broker.stats(h.queue)).token + 12_345
            await send(h, "a")

            assert [] == await adopt(h, beyond=beyond)

            assert beyond < (await lease_one(h)).receipt.token

    async def test_tokens_never_go_back(self) -> None:
        async with self.harness() as h:
            top = (await h.broker.stats(h.queue)).token + 50_000_000
            await adopt(h, beyond=top)
            await send(h, "a", "b")
            first = await lease_one(h)

            for beyond in (0, 1, top - 1, top, first.receipt.token):
                await adopt(h, await foreign(h, f"x{beyond}", priority=-1), beyond=beyond)

            assert top < first.receipt.token < (await lease_one(h)).receipt.token

    async def test_many_may_raise_the_tokens_at_once(self) -> None:
        async with self.harness() as h, clones(h, 4) as brokers:
            top = (await h.broker.stats(h.queue)).token + 50_000_000
            await send(h, *(f"{n}" for n in range(40)))

            async def take(n: int) -> list[int]:
                await brokers[n].adopt(h.queue, [], beyond=top - 9_000_000 * n)
                held = await brokers[n].lease(h.queue, limit=10, duration=60, holder="w")
                return [one.receipt.token for one in held]

            tokens = [
                token for found in await asyncio.gather(*map(take, range(4))) for token in found
            ]

            assert 40 == len(set(tokens))
            await send(h, "last")
            assert max(top, *tokens) < (await lease_one(h)).receipt.token

    async def test_the_greatest_token_is_told(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b")
            before = (await h.broker.stats(h.queue)).token
            tokens = [held.receipt.token for held in await lease(h)]

            assert max(tokens) <= (await h.broker.stats(h.queue)).token
            assert before <= (await h.broker.stats(h.queue)).token
            await h.broker.drop(h.queue)
            assert max(tokens) <= (await h.broker.stats(h.queue)).token

    async def test_a_message_shows_the_token_of_its_lease_until_that_is_over(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            assert None is (await look(h, "a")).token

            held = await lapse_one(h)
            assert held.receipt.token == (await look(h, "a")).token
            (ready,) = await everything(h, State.READY)
            assert held.receipt.token == ready.token

            again = await lease_one(h)
            (leased,) = await everything(h, State.LEASED)
            assert again.receipt.token == leased.token
            await h.broker.cancel(h.queue, ["a"], to=ARCHIVE)
            assert None is (await look(h, "a")).token

    async def test_live_messages_count_as_created_and_archived_ones_do_not(self) -> None:
        async with self.harness() as h:
            await send(h, "x")
            batch = [await foreign(h, "a"), await delayed(h, "b")]
            await adopt(h, *batch, await archived(h, "c"), await archived(h, "d", note=None))

            stats = await h.broker.stats(h.queue)
            assert (3, 0) == (stats.created, stats.ended)
            assert {"failed": 1, "ruled": 1} == dict(stats.archived)
            assert Counts(ready=2, delayed=1) == await counts(h)

            await h.broker.cancel(h.queue, ["b"], to=ARCHIVE)
            stats = await h.broker.stats(h.queue)
            assert (3, 1) == (stats.created, stats.ended)

    async def test_the_longest_due_is_as_old_as_it_was(self) -> None:
        async with self.harness() as h:
            await adopt(h, await foreign(h, "a"))

            oldest = (await h.broker.stats(h.queue)).oldest_due
            assert oldest is not None
            assert 60 < oldest < 120

    async def test_a_queue_with_nothing_but_what_was_adopted_is_listed(self) -> None:
        for make in (foreign, delayed, archived):
            async with self.harness() as h:
                given = await make(h, "a")
                assert h.queue not in await h.broker.queues()

                await adopt(h, given)

                assert h.queue in await h.broker.queues()

    async def test_adopting_nothing_is_nothing(self) -> None:
        async with self.harness() as h:
            assert [] == await adopt(h)
            assert [] == await adopt(h, reports={})
            assert [] == await adopt(h, reports={"a": []})

            assert h.queue not in await h.broker.queues()
            assert Counts() == await counts(h)

    async def test_another_queue_is_left_alone(self) -> None:
        async with self.harness() as h:
            given = await foreign(h, "a")
            await h.broker.send(h.other_queue, [draft(h, "a", b"theirs")])

            assert [] == await adopt(h, given)

            theirs = await h.broker.get(h.other_queue, "a")
            assert theirs is not None
            assert (b"theirs", b"body") == (theirs.body, (await lease_one(h)).body)

    async def test_a_pause_holds_for_what_is_adopted(self) -> None:
        async with self.harness() as h:
            await h.broker.pause(h.queue)

            assert [] == await adopt(h, await foreign(h, "a"))

            assert [] == await lease(h)
            assert (await h.broker.stats(h.queue)).paused
            await h.broker.resume(h.queue)
            assert ["a"] == ids(await lease(h))

    async def test_an_adopted_message_waits_for_its_key(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "x", key="k"))
            held = await lease_one(h)

            await adopt(h, await foreign(h, "b", key="k"), await foreign(h, "a", key="k"))

            assert [] == await lease(h)
            await end(h, held)
            assert ["b", "a"] == await in_turn(h)

    async def test_an_adopted_message_stands_among_those_of_its_key(self) -> None:
        async with self.harness() as h:
            await send(h, draft(h, "x", key="k"), draft(h, "y", key="k"))
            held = await lease_one(h)
            assert [] == await lease(h)  # y is passed over

            await adopt(h, await foreign(h, "old", key="k"))

            await end(h, held)
            assert ["old"] == ids(await lease(h))

    async def test_a_thousand_and_more_are_adopted_at_once(self) -> None:
        async with self.harness() as h:
            plain = await foreign(h, "-")
            batch = [msgspec.structs.replace(plain, id=f"{n * 7919 % 1203}") for n in range(1203)]

            assert [] == await adopt(h, *batch)
            assert ids(batch) == ids(await everything(h, State.READY))
            assert ids(batch) == ids(await adopt(h, *batch))
            seen = await everything(h, State.READY)
            assert [] == await expel(h, *seen)

            assert Counts() == await counts(h)

    async def test_a_thousand_and_more_of_the_archive_stay_in_their_order(self) -> None:
        async with self.harness() as h:
            plain = await archived(h, "-")
            batch = [msgspec.structs.replace(plain, id=f"{n * 7919 % 1203}") for n in range(1203)]

            assert [] == await adopt(h, *batch)
            assert ids(batch) == ids(await everything(h, State.ARCHIVED))
            assert ids(batch) == ids(await adopt(h, *batch))
            assert [] == await expel(h, *await everything(h, State.ARCHIVED))

            assert {} == dict((await h.broker.stats(h.queue)).archived)

    async def test_large_messages_are_adopted_and_expelled(self) -> None:
        async with self.harness() as h:
            body = bytes(range(256)) * 4096 * 3
            batch = [await rich(h, id, body=body, key=None) for id in "cab"]

            assert [] == await adopt(h, *batch)
            seen = await everything(h, State.READY)
            assert taken(*batch) == taken(*seen)

            assert [] == await expel(h, *seen)

    async def test_what_cannot_be_is_refused_before_anything_is_changed(self) -> None:
        async with self.harness() as h:
            good = await foreign(h, "good")
            token = (await h.broker.stats(h.queue)).token
            for what, fields in BAD_FIELDS.items():
                bad = msgspec.structs.replace(await foreign(h, "a"), **fields)

                with refuses(InvalidInput, f"adopting: {what}"):
                    await adopt(h, good, bad, beyond=token + 10**9)
                with refuses(InvalidInput, f"expelling: {what}"):
                    await expel(h, bad)

            assert h.queue not in await h.broker.queues()
            assert (await h.broker.stats(h.queue)).token < token + 10**9

    async def test_a_state_that_has_a_lease_is_a_bad_option(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b")
            await lease_one(h)
            (held,) = await everything(h, State.LEASED)
            await h.broker.cancel(h.queue, ["a"], to=ARCHIVE)
            await lapse_one(h)
            (lapsed,) = await everything(h, State.READY)

            for bad in (held, lapsed):
                with refuses(InvalidOption, "a message with a lease"):
                    await adopt(h, bad)
                with refuses(InvalidOption, "a message with a lease"):
                    await expel(h, bad)

            assert Counts(ready=1) == await counts(h)

    async def test_reports_and_tokens_that_cannot_be_are_refused(self) -> None:
        async with self.harness() as h:
            good = await foreign(h, "a", awaits=1)
            for told in (Report("\n", Note("failed")), Report("b", Note("bored"))):  # type: ignore[arg-type]
                with refuses(InvalidInput, "a report that cannot be"):
                    await adopt(h, good, reports={"a": [told]})
            with refuses(InvalidInput, "an id that cannot be"):
                await adopt(h, good, reports={"": []})
            for beyond in (-1, 1.5, 2**52 + 1, "1"):
                with refuses(InvalidOption, "a token that cannot be"):
                    await adopt(h, good, beyond=beyond)  # type: ignore[arg-type]

            assert Counts() == await counts(h)
