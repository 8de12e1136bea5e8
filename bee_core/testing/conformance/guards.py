"""What every verb refuses, and what it lets pass."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from bee_core.broker import Broker, Inspector, Store
from bee_core.disposition import Delete
from bee_core.errors import InvalidInput, InvalidName, InvalidOption
from bee_core.message import ZERO, Draft, Rate, Receipt, Settlement, Throttle
from bee_core.stored import State, Stored
from bee_core.testing.conformance.archive import archive, archived
from bee_core.testing.conformance.harness import Conformance
from bee_core.testing.conformance.steps import (
    Counts,
    counts,
    draft,
    end,
    ids,
    lease,
    lease_one,
    refuses,
    send,
)

BAD_QUEUES = [
    "",
    "A",
    "aB",
    "1a",
    "-a",
    "a b",
    "a.b",
    "a:b",
    "a/b",
    "a*",
    "{a}",
    "ä",
    "a\n",
    "x" * 48,
]
BAD_IDS = ["", "a\x00", "\n", "a\tb", "\x1b", "\ud800", "x" * 201]
BAD_NUMBERS = [-1, -0.001, math.nan, math.inf, -math.inf, 1e12]

A = Receipt("a", 1)
SEEN = Stored(
    id="a",
    incarnation=1,
    state=State.READY,
    body=b"",
    headers={},
    priority=0,
    counters=ZERO,
    sent_at=1e9,
    due_at=1e9,
)
Call = Callable[[], Awaitable[object]]


class Guards(Conformance):
    """A bad argument is refused before anything happens."""

    async def test_it_has_every_verb(self) -> None:
        async with self.harness() as h:
            assert isinstance(h.broker, Broker)
            assert isinstance(h.broker, Inspector)
            assert isinstance(h.broker.clone(), Store)

    async def test_every_verb_refuses_a_bad_queue_name(self) -> None:
        async with self.harness() as h:
            for name in BAD_QUEUES:
                for verb, call in verbs(h.broker, name).items():
                    with refuses(InvalidName, f"{verb} in {name!r}"):
                        await call()

    async def test_the_longest_name_and_the_longest_id_are_good(self) -> None:
        async with self.harness() as h:
            queue = h.queue.ljust(47, "q")
            await h.broker.send(queue, [draft(h, "x" * 200)])

            leases = await h.broker.lease(queue, limit=1, duration=60, holder="w")

            assert ["x" * 200] == ids(leases)

    async def test_a_bad_id_is_refused_and_nothing_of_its_batch_is_stored(self) -> None:
        async with self.harness() as h:
            for id in BAD_IDS:
                with refuses(InvalidName, f"id {id!r}"):
                    await send(h, "good", id)

            assert Counts() == await counts(h)

    async def test_a_bad_id_is_refused_wherever_one_is_asked_for(self) -> None:
        async with self.harness() as h:
            for id in BAD_IDS:
                with refuses(InvalidName, f"get {id!r}"):
                    await h.broker.get(h.queue, id)
                with refuses(InvalidName, f"cancel {id!r}"):
                    await h.broker.cancel(h.queue, [id], to=Delete())
                with refuses(InvalidName, f"restore {id!r}"):
                    await h.broker.restore(h.queue, [id])
                with refuses(InvalidName, f"results {id!r}"):
                    await h.broker.results(h.queue, ["good", id])
                with refuses(InvalidName, f"reports {id!r}"):
                    await h.broker.reports(h.queue, id)

    async def test_the_ids_of_one_send_are_distinct(self) -> None:
        async with self.harness() as h:
            with refuses(InvalidName):
                await send(h, "a", "b", "a")

            assert Counts() == await counts(h)

    async def test_a_bad_delay_is_refused(self) -> None:
        async with self.harness() as h:
            for delay in BAD_NUMBERS:
                with refuses(InvalidOption, f"delay {delay}"):
                    await send(h, "good", Draft("a", b"", delay))

            assert Counts() == await counts(h)

    async def test_a_bad_priority_is_refused(self) -> None:
        bad: list[Any] = [-10, 10, 1.5, True, "1", None]
        async with self.harness() as h:
            for priority in bad:
                with refuses(InvalidOption, f"priority {priority!r}"):
                    await send(h, "good", Draft("a", b"", priority=priority))

            assert Counts() == await counts(h)

    async def test_a_bad_key_is_refused(self) -> None:
        bad: list[Any] = [*BAD_IDS, 1, b"key", ("a", "b")]
        async with self.harness() as h:
            for key in bad:
                with refuses(InvalidInput, f"key {key!r}"):
                    await send(h, "good", Draft("a", b"", key=key))
                with refuses(InvalidInput, f"reports_to {key!r}"):
                    await send(h, "good", Draft("a", b"", reports_to=key))

            assert Counts() == await counts(h)

    async def test_a_bad_number_of_reports_is_refused(self) -> None:
        bad: list[Any] = [-1, 1.5, True, "1", None, 1_000_001]
        async with self.harness() as h:
            for awaits in bad:
                with refuses(InvalidOption, f"awaits {awaits!r}"):
                    await send(h, "good", Draft("a", b"", awaits=awaits))

            assert Counts() == await counts(h)

    async def test_a_bad_result_settles_nothing(self) -> None:
        bad: list[Any] = ["text", 1, bytearray(b"a"), {"a": 1}]
        async with self.harness() as h:
            await send(h, "a", "b")
            held, other = await lease(h)

            settlements = [
                *(Settlement(held.receipt, Delete(), result=result) for result in bad),
                *(Settlement(held.receipt, Delete(), keep=keep) for keep in BAD_NUMBERS),
            ]
            for settlement in settlements:
                with refuses(InvalidOption, f"{settlement}"):
                    await h.broker.settle(
                        h.queue, [Settlement(other.receipt, Delete()), settlement]
                    )

            assert Counts(leased=2) == await counts(h)

    async def test_a_body_that_is_not_bytes_is_refused(self) -> None:
        bad: list[Any] = ["text", None, 1, bytearray(b"a"), {"a": 1}]
        async with self.harness() as h:
            for body in bad:
                with refuses(InvalidInput, f"body {body!r}"):
                    await send(h, "good", Draft("a", body))

            assert Counts() == await counts(h)

    async def test_a_bad_limit_takes_nothing(self) -> None:
        bad: list[Any] = [0, -1, 1.5, True, None]
        async with self.harness() as h:
            await send(h, "a")

            for limit in bad:
                with refuses(InvalidOption, f"limit {limit!r}"):
                    await h.broker.lease(h.queue, limit=limit, duration=60, holder="w")

            assert Counts(ready=1) == await counts(h)

    async def test_a_bad_duration_takes_nothing(self) -> None:
        async with self.harness() as h:
            await send(h, "a")

            for duration in [0, *BAD_NUMBERS]:
                with refuses(InvalidOption, f"duration {duration}"):
                    await h.broker.lease(h.queue, limit=1, duration=duration, holder="w")

            assert Counts(ready=1) == await counts(h)

    async def test_a_rate_that_makes_no_sense_is_refused(self) -> None:
        times: list[Any] = [0, -1, 1.5, True, None, "1"]
        for bad in times:
            with refuses(InvalidOption, f"Rate({bad!r})"):
                Rate(bad)
        stretches: list[Any] = [0, -1, float("nan"), float("inf"), 1e12, "1", None]
        for bad in stretches:
            with refuses(InvalidOption, f"Rate(1, {bad!r})"):
                Rate(1, bad)

    async def test_a_throttle_that_makes_no_sense_is_refused(self) -> None:
        numbers: list[Any] = [0, -1, 1.5, True, "1"]
        for bad in numbers:
            with refuses(InvalidOption, f"per_key {bad!r}"):
                Throttle(per_key=bad)
        rates: list[Any] = [1, 0.5, "1/s", (1, 1.0)]
        for bad in rates:
            with refuses(InvalidOption, f"rate {bad!r}"):
                Throttle(rate=bad)
            with refuses(InvalidOption, f"key_rate {bad!r}"):
                Throttle(key_rate=bad)

    async def test_a_bad_duration_extends_nothing(self) -> None:
        async with self.harness() as h:
            await send(h, "a")
            held = await lease_one(h)

            for duration in [0, *BAD_NUMBERS]:
                with refuses(InvalidOption, f"duration {duration}"):
                    await h.broker.extend(h.queue, [held.receipt], duration=duration)

            assert await end(h, held)

    async def test_a_bad_timeout_is_refused(self) -> None:
        async with self.harness() as h:
            for timeout in BAD_NUMBERS:
                with refuses(InvalidOption, f"timeout {timeout}"):
                    await h.broker.wait(h.queue, timeout=timeout)

    async def test_a_bad_draft_among_what_follows_settles_nothing(self) -> None:
        bad = [
            Draft("\n", b""),
            Draft("b", b"", -1),
            Draft("b", b"", priority=99),
            Draft("b", b"", key=""),
            Draft("b", b"", awaits=-1),
            Draft("b", b"", reports_to="\n"),
        ]
        async with self.harness() as h:
            await send(h, "a", "b")
            held, other = await lease(h)

            for following in bad:
                settlements = [
                    Settlement(other.receipt, Delete()),
                    Settlement(held.receipt, Delete(), then=[draft(h, "good"), following]),
                ]
                with refuses(InvalidInput, f"then {following}"):
                    await h.broker.settle(h.queue, settlements)

            assert Counts(leased=2) == await counts(h)
            assert await end(h, held)

    async def test_a_bad_age_prunes_nothing(self) -> None:
        async with self.harness() as h:
            await archive(h, "a")

            for number in BAD_NUMBERS:
                with refuses(InvalidOption, f"older_than {number}"):
                    await h.broker.prune(h.queue, older_than=number)

            assert ["a"] == await archived(h)

    async def test_a_negative_number_prunes_nothing(self) -> None:
        async with self.harness() as h:
            await archive(h, "a")

            with refuses(InvalidOption, "keep -1"):
                await h.broker.prune(h.queue, keep=-1)
            with refuses(InvalidOption, "limit -1"):
                await h.broker.prune(h.queue, limit=-1)

            assert ["a"] == await archived(h)

    async def test_a_page_of_no_size_is_refused(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b")

            for limit in (0, -1):
                with refuses(InvalidOption, f"limit {limit}"):
                    await h.broker.scan(h.queue, State.READY, limit=limit)
                with refuses(InvalidOption, f"limit {limit}"):
                    await h.broker.reports(h.queue, "a", limit=limit)

    async def test_a_mark_that_was_never_given_out_breaks_nothing(self) -> None:
        async with self.harness() as h:
            await send(h, "a", "b")

            for after in ("", "no such page", "0", "-1", "[]", "{}", '["a"]', "[1, 2, 3, 4]", "é"):
                for state in State:
                    with suppress(InvalidInput):  # or it stands for some place in the order
                        await h.broker.scan(h.queue, state, after=after)

    async def test_a_call_with_nothing_to_do_does_nothing(self) -> None:
        async with self.harness() as h:
            await send(h, "a")

            assert [] == list(await h.broker.send(h.queue, []))
            assert set() == await h.broker.extend(h.queue, [], duration=60)
            assert set() == await h.broker.settle(h.queue, [])
            assert set() == await h.broker.cancel(h.queue, [], to=Delete())
            assert set() == await h.broker.restore(h.queue, [])
            assert {} == dict(await h.broker.results(h.queue, []))

            assert Counts(ready=1) == await counts(h)
            assert [] == list(await h.broker.send(h.other_queue, []))
            assert h.other_queue not in await h.broker.queues()


def verbs(broker: Store, queue: str) -> Mapping[str, Call]:
    """Every verb that names a queue, called with arguments that are otherwise good."""
    return {
        "send": lambda: broker.send(queue, [Draft("a", b"")]),
        "lease": lambda: broker.lease(queue, limit=1, duration=60, holder="w"),
        "extend": lambda: broker.extend(queue, [A], duration=60),
        "settle": lambda: broker.settle(queue, [Settlement(A, Delete())]),
        "cancel": lambda: broker.cancel(queue, ["a"], to=Delete()),
        "wait": lambda: broker.wait(queue, timeout=0),
        "results": lambda: broker.results(queue, ["a"]),
        "reports": lambda: broker.reports(queue, "a"),
        "announce": lambda: broker.announce(queue, "w", about="", duration=1),
        "stats": lambda: broker.stats(queue),
        "get": lambda: broker.get(queue, "a"),
        "scan": lambda: broker.scan(queue, State.READY),
        "restore": lambda: broker.restore(queue, ["a"]),
        "adopt": lambda: broker.adopt(queue, [SEEN]),
        "expel": lambda: broker.expel(queue, [SEEN]),
        "prune": lambda: broker.prune(queue),
        "purge": lambda: broker.purge(queue),
        "drop": lambda: broker.drop(queue),
        "pause": lambda: broker.pause(queue),
        "resume": lambda: broker.resume(queue),
        "workers": lambda: broker.workers(queue),
    }
