"""Jobs that are delivered again although they have run to their end: `runs="twice"`, "killed"."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import bee_core as bee
from bee_core.events import AttemptLost, AttemptSettled
from bee_core.testing import ManualClock, running
from bee_core.testing.again import Runs

from .in_processes import act
from .support import Work, counted, heard


class Note(bee.Job):
    text: str


AGAIN: list[Runs] = ["twice", "killed"]


def declare(**policy: Any) -> tuple[bee.Hive, bee.HiveQueue[Note]]:
    hive = bee.Hive("memory://")
    return hive, hive.queue("notes", Note, policy=bee.Policy(**policy))


@pytest.mark.parametrize("runs", AGAIN)
async def test_a_job_that_has_succeeded_runs_again_under_its_id_and_no_time_passes(
    runs: Runs,
) -> None:
    hive, notes = declare(on_success=bee.Archive())
    seen: list[tuple[str, int, int]] = []

    @notes.handler
    async def write(job: Note, delivery: bee.Delivery[Note]) -> None:
        seen.append((delivery.id, delivery.attempt, delivery.counters.stalls))

    async with running(hive, runs=runs) as bees:
        before = bees.clock.now()
        await notes.send(Note("a"), id="a")
        await bees.drain()

        stalls = int(runs == "killed")
        assert [("a", 1, 0), ("a", 2, stalls)] == seen
        assert before == bees.clock.now()
        [archived] = await bees.archived(notes)
        assert bee.Counters(deliveries=2, stalls=stalls) == archived.counters
        assert "succeeded" == archived.note.reason  # type: ignore[union-attr]
        assert {"AttemptStarted": 2, "AttemptLost": 1, "AttemptSettled": 1} == counted(bees)
        assert ["a"] == [event.id for event in heard(bees, AttemptLost)]
        assert ["a"] == [event.id for event in heard(bees, AttemptSettled)]


@pytest.mark.parametrize("runs", AGAIN)
async def test_moving_time_is_enough(runs: Runs) -> None:
    hive, notes = declare()
    seen: list[str] = []

    @notes.handler
    async def write(job: Note) -> None:
        seen.append(job.text)

    clock = ManualClock()
    async with running(hive, clock=clock, runs=runs):
        await notes.send(Note("a"), delay=60)
        await clock.advance(59)
        assert [] == seen
        await clock.advance(1)
        assert ["a", "a"] == seen


@pytest.mark.parametrize("runs", AGAIN)
async def test_what_was_to_follow_follows_from_the_last_run_alone(runs: Runs) -> None:
    hive, notes = declare(keep_result=60)
    seen: list[str] = []

    @notes.handler
    async def write(job: Note, delivery: bee.Delivery[Note]) -> int:
        seen.append(job.text)
        if job.text == "first":
            delivery.then(Note("second"))
        return len(seen)

    async with running(hive, runs=runs) as bees:
        ticket = await notes.send(Note("first"))
        await bees.drain()

        assert ["first", "first", "second", "second"] == seen
        assert 2 == await notes.result(ticket.id)


@pytest.mark.parametrize("runs", AGAIN)
async def test_failures_and_repeats_are_as_ever_and_it_is_the_success_that_is_repeated(
    runs: Runs,
) -> None:
    hive, notes = declare(on_error=bee.Repeat(3), on_success=bee.Archive())
    calls = 0

    @notes.handler
    async def write(job: Note) -> None:
        nonlocal calls
        calls += 1
        if calls < 3:
            raise ConnectionError

    async with running(hive, runs=runs) as bees:
        await notes.send(Note("a"), id="a")
        await bees.drain()
        assert 1 == calls
        await bees.advance(100)
        assert 4 == calls
        [archived] = await bees.archived(notes)
        assert 2 == archived.counters.errors


@pytest.mark.parametrize("runs", AGAIN)
async def test_a_job_that_fails_for_good_runs_no_more_often_than_ever(runs: Runs) -> None:
    hive, notes = declare(on_error=bee.Repeat(1))
    failures: list[str] = []

    @notes.handler
    async def write(job: Note) -> None:
        raise ConnectionError

    @notes.on_failure
    async def desk(failure: bee.Failure[Note]) -> None:
        failures.append(failure.id)

    async with running(hive, runs=runs) as bees:
        await notes.send(Note("a"), id="a")
        await bees.advance(100)

        assert 2 == bees.runs.count("a")
        assert ["a", "a"] == failures  # the one who hears of it is a handler too


@pytest.mark.parametrize("runs", AGAIN)
async def test_an_id_that_is_sent_anew_is_a_job_of_its_own(runs: Runs) -> None:
    hive, notes = declare()
    notes.handler(lambda job: None)

    async with running(hive, runs=runs) as bees:
        for times in (2, 4):
            await notes.send(Note("a"), id="a")
            await bees.drain()
            assert ["a"] * times == bees.runs


async def test_who_is_killed_is_stalled_as_its_policy_says() -> None:
    hive, notes = declare(on_stall=bee.Archive())
    seen: list[str] = []

    @notes.handler
    async def write(job: Note) -> None:
        seen.append(job.text)

    async with running(hive, runs="killed") as bees:
        await notes.send(Note("a"))
        await bees.drain()

        assert ["a"] == seen
        [archived] = await bees.archived(notes)
        assert ("stalled", 1) == (archived.note.reason, archived.counters.stalls)  # type: ignore[union-attr]


@pytest.mark.parametrize("runs", AGAIN)
async def test_handlers_in_threads_and_in_processes_run_again_too(runs: Runs) -> None:
    hive = bee.Hive("memory://")
    notes, doubles = hive.queue("notes", Note), hive.queue("doubles", Work)
    seen: list[str] = []

    @notes.handler
    def write(job: Note) -> None:
        seen.append(job.text)

    doubles.on(Work, process=True)(act)

    async with running(hive, runs=runs) as bees:
        await notes.send(Note("a"))
        await doubles.send(Work("double", 3), id="three")
        await bees.drain()

        assert ["a", "a"] == seen
        assert 2 == bees.runs.count("three")


@pytest.mark.parametrize("runs", AGAIN)
async def test_a_ruling_of_the_handler_is_repeated_and_a_snooze_is_not(runs: Runs) -> None:
    hive, notes = declare()
    seen: list[str] = []

    @notes.handler
    async def write(job: Note) -> bee.Disposition | None:
        seen.append(job.text)
        if len(seen) == 1:
            raise bee.Snooze(10)
        return bee.Archive()

    async with running(hive, runs=runs) as bees:
        await notes.send(Note("a"))
        await bees.drain()
        assert 1 == len(seen)
        await bees.advance(10)
        assert 3 == len(seen)
        assert 1 == len(await bees.archived(notes))


@pytest.mark.parametrize("runs", AGAIN)
async def test_schedules_and_groups_are_kept(runs: Runs) -> None:
    hive, notes = declare(keep_result=600)
    gathered: list[list[int]] = []
    ticks: list[str] = []

    @notes.handler
    async def write(job: Note, delivery: bee.Delivery[Note]) -> int:
        if job.text == "tick":
            ticks.append(delivery.id)
        if job.text == "all":
            gathered.append([one.value for one in await delivery.results(type=int)])
        return len(job.text)

    notes.schedule("often", Note("tick"), every=60)
    async with running(hive, runs=runs) as bees:
        await notes.group([Note("a"), Note("bb")], then=Note("all"))
        await bees.advance(180)

        assert [[1, 2], [1, 2]] == gathered
        assert 2 * len(set(ticks)) == len(ticks)
        assert 3 <= len(set(ticks)) <= 4


@pytest.mark.parametrize("runs", AGAIN)
async def test_a_lost_answer_and_a_crash_go_together_with_it(runs: Runs) -> None:
    hive, notes = declare()
    seen: list[str] = []

    @notes.handler
    async def write(job: Note) -> None:
        seen.append(job.text)

    async with running(hive, runs=runs, lease=30) as bees:
        arrived = bees.broker.gate("settle")
        await notes.send(Note("a"))
        await arrived.reached.wait()
        await bees.crash()
        await bees.start()
        await bees.advance(30)
        assert 3 == len(seen)
        bees.broker.lose_answer("settle")
        await notes.send(Note("b"))
        await bees.advance(30)
        assert seen.count("b") in (2, 3)
        assert [] == await bees.pending(notes)


@pytest.mark.parametrize("wrong", ["thrice", "", None, 2, ["once"]])
async def test_other_runs_are_refused(wrong: Any) -> None:
    hive, notes = declare()
    notes.handler(lambda job: None)

    with pytest.raises(bee.InvalidOption, match="runs must be one of 'once', 'twice', 'killed'"):
        async with running(hive, runs=wrong):
            await asyncio.sleep(0)
