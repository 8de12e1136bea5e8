"""How far a job is: said by its handler, sent by the heartbeat, seen by operators."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import bee_core as bee
from bee_core.events import LoopBlocked
from bee_core.testing import HiveUnderTest, ManualClock

from .support import LEASE, STEADY, Jobs, Work, at_work, heard, until

FOREVER = bee.Policy(timeout=None)


async def seen(bees: HiveUnderTest, id: str = "a") -> str | None:
    """What an operator sees."""
    stored = await bees.broker.inner.get("jobs", id)
    assert stored is not None
    return stored.progress


class Talker:
    """A handler that says what it is told to say, and goes on until it may end."""

    def __init__(self) -> None:
        self.delivery: bee.Delivery[Work] | None = None
        self.end = asyncio.Event()

    async def __call__(self, job: Work, delivery: bee.Delivery[Work]) -> None:
        self.delivery = delivery
        await self.end.wait()

    def say(self, done: str | float) -> None:
        assert self.delivery is not None
        self.delivery.progress(done)


async def begin(bees: HiveUnderTest, jobs: Jobs) -> None:
    await jobs.send(Work(), id="a")
    await bees.advance(0)


async def test_what_a_handler_says_is_seen_at_once_if_it_has_been_silent(
    bee_clock: ManualClock,
) -> None:
    talker = Talker()
    async with at_work(talker, clock=bee_clock, policy=FOREVER) as (bees, jobs):
        await begin(bees, jobs)
        assert await seen(bees) is None
        talker.say("40 of 100")
        await bees.advance(0.01)

        assert "40 of 100" == await seen(bees)


@pytest.mark.parametrize(
    ("said", "shown"),
    [(0.4, "40%"), (0, "0%"), (1, "100%"), (0.999, "100%"), (1 / 3, "33%"), ("", "-"), (40, "40")],
)
async def test_a_number_is_shown_as_per_cent(said: Any, shown: str, bee_clock: ManualClock) -> None:
    talker = Talker()
    async with at_work(talker, clock=bee_clock, policy=FOREVER) as (bees, jobs):
        await begin(bees, jobs)
        talker.say(said)
        await bees.advance(0.01)

        assert shown == await seen(bees)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("x" * 500, "x" * 200),
        ("two\nlines\0", "two lines "),
        ("a lone \ud800 surrogate", "a lone   surrogate"),
        ("größer → ok", "größer → ok"),
        (float("nan"), "nan"),
    ],
    ids=["long", "control", "surrogate", "letters", "nan"],
)
async def test_whatever_is_said_does_no_harm(said: Any, shown: str, bee_clock: ManualClock) -> None:
    talker = Talker()
    async with at_work(talker, clock=bee_clock, policy=FOREVER) as (bees, jobs):
        await begin(bees, jobs)
        talker.say(said)
        await bees.advance(0.01)

        assert shown == await seen(bees)


@pytest.mark.parametrize("said", [None, b"40%", [1]], ids=str)
async def test_what_is_neither_text_nor_number_is_refused(
    said: Any, bee_clock: ManualClock
) -> None:
    talker = Talker()
    async with at_work(talker, clock=bee_clock, policy=FOREVER) as (bees, jobs):
        await begin(bees, jobs)

        with pytest.raises(bee.InvalidOption, match="progress is text"):
            talker.say(said)


async def test_of_much_that_is_said_the_last_is_sent_once_in_a_second(
    bee_clock: ManualClock,
) -> None:
    talker = Talker()
    async with at_work(talker, clock=bee_clock, policy=FOREVER) as (bees, jobs):
        await begin(bees, jobs)
        for number in range(1000):
            talker.say(f"{number} of 1000")
            await bees.advance(0.01)

        assert 10 <= bees.broker.calls["extend"] <= 12
        await bees.advance(1)
        assert "999 of 1000" == await seen(bees)


async def test_what_was_said_before_is_not_sent_again(bee_clock: ManualClock) -> None:
    talker = Talker()
    async with at_work(talker, clock=bee_clock, policy=FOREVER) as (bees, jobs):
        await begin(bees, jobs)
        for _ in range(5):
            talker.say("half")
            await bees.advance(1.5)

        assert 1 == bees.broker.calls["extend"]


async def test_who_speaks_has_its_lease_renewed_with_it(bee_clock: ManualClock) -> None:
    talker = Talker()
    async with at_work(talker, clock=bee_clock, policy=FOREVER) as (bees, jobs):
        await begin(bees, jobs)
        for number in range(40):
            talker.say(number / 40)
            await bees.advance(LEASE / 20)
        talker.end.set()
        await bees.drain()

        assert ["a"] == bees.runs
        assert [] == heard(bees, LoopBlocked)


async def test_one_that_speaks_costs_the_silent_ones_nothing(bee_clock: ManualClock) -> None:
    talker = Talker()

    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        if job.what == "talk":
            await talker(job, delivery)
        await talker.end.wait()

    async with at_work(handle, clock=bee_clock, policy=FOREVER) as (bees, jobs):
        await jobs.send_many([Work() for _ in range(5)])
        await jobs.send(Work("talk"), id="a")
        await bees.advance(0)
        for number in range(300):
            talker.say(f"{number}")
            await bees.advance(LEASE / 30)
        talker.end.set()
        await bees.drain()

        assert 6 == len(bees.runs)


async def test_a_thread_says_it_as_any_other(bee_clock: ManualClock) -> None:
    end = threading.Event()

    def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        for number in range(10_000):
            delivery.progress(f"{number} of 10000")
        delivery.progress("waiting")
        end.wait(10)

    async with at_work(handle, clock=bee_clock, policy=FOREVER) as (bees, jobs):
        await begin(bees, jobs)
        for _ in range(2000):
            await bees.advance(0.01)
            if await seen(bees) == "waiting":
                break
            await asyncio.sleep(0.001)
        end.set()
        await bees.drain()

        assert ["a"] == bees.runs


async def test_it_stays_while_the_job_waits_to_be_repeated(bee_clock: ManualClock) -> None:
    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        delivery.progress(f"attempt {delivery.attempt}")
        await bee_clock.sleep(2)
        raise ConnectionError

    policy = bee.Policy(on_error=bee.Repeat(1), backoff=STEADY)
    async with at_work(handle, clock=bee_clock, policy=policy) as (bees, jobs):
        await begin(bees, jobs)
        await bees.advance(3)
        assert bee.State.DELAYED == (await bees.broker.inner.get("jobs", "a")).state  # type: ignore[union-attr]
        assert "attempt 1" == await seen(bees)

        await bees.advance(10)
        assert "attempt 2" == await seen(bees)  # in the archive


async def test_trouble_with_the_broker_only_delays_it(bee_clock: ManualClock) -> None:
    talker = Talker()
    async with at_work(talker, clock=bee_clock, policy=FOREVER) as (bees, jobs):
        await begin(bees, jobs)
        bees.broker.fail("extend", bee.BrokerUnavailable("down"), times=2)
        talker.say("half")
        await bees.advance(5)

        assert "half" == await seen(bees)
        assert bee.State.LEASED == (await bees.broker.inner.get("jobs", "a")).state  # type: ignore[union-attr]


async def test_a_call_that_hangs_for_progress_does_not_cost_others_their_lease(
    bee_clock: ManualClock,
) -> None:
    """The old one falls due for renewal while an answer about the new one is missing."""
    talker = Talker()

    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        if job.what == "talk":
            await talker(job, delivery)
        await talker.end.wait()

    async with at_work(handle, clock=bee_clock, policy=FOREVER) as (bees, jobs):
        await jobs.send(Work(), id="old")
        await bees.advance(9)
        await jobs.send(Work("talk"), id="a")
        await bees.advance(0)
        gate = bees.broker.gate("extend")
        talker.say("half")
        await bees.advance(LEASE)
        gate.open()
        await bees.advance(1)
        talker.end.set()
        await bees.drain()

        assert bees.runs.count("old") == 1


async def test_after_the_handler_has_ended_nothing_comes_of_it(bee_clock: ManualClock) -> None:
    kept: list[bee.Delivery[Work]] = []

    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        kept.append(delivery)

    async with at_work(handle, clock=bee_clock) as (bees, jobs):
        await begin(bees, jobs)
        kept[0].progress("too late")
        await bees.advance(LEASE)
        assert 0 == bees.broker.calls["extend"]
    kept[0].progress("the worker is gone")


async def test_a_thread_that_has_lost_its_job_speaks_for_nobody(bee_clock: ManualClock) -> None:
    go_on, ended = threading.Event(), threading.Event()

    def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        if job.what == "first":
            go_on.wait(10)
            delivery.progress("first")
            ended.set()

    async with at_work(handle, clock=bee_clock, policy=FOREVER, cancel_grace=1) as (bees, jobs):
        await jobs.send(Work("first"), id="a")
        await bees.advance(0)
        await jobs.cancel("a", to=bee.Delete())
        await bees.advance(LEASE)
        await jobs.send(Work("second"), id="a", delay=1000)
        go_on.set()
        await until(ended.is_set)
        await bees.advance(5)

        assert await seen(bees) is None
