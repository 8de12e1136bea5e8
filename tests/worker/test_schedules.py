"""Schedules at work: each instant once, whoever is killed, however often, and whatever is lost."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter

import pytest

import bee_core as bee
from bee_core.events import AttemptSettled, ScheduleMissed
from bee_core.outcome import Failed
from bee_core.planner import EVERY
from bee_core.stored import State
from bee_core.testing import FaultyBroker, ManualClock
from bee_memory import MemoryBroker

from .fleet import START, StoreClock, fleet, instants
from .support import LEASE, Work, at_work, hive_for, nothing, under_test

MESSAGE = "bee-schedule:pulse"


def pulse(**options: object) -> bee.Schedule[Work]:
    options = options if options.keys() & {"every", "cron"} else {"every": 60, **options}
    return bee.Schedule("pulse", Work(), **options)  # type: ignore[arg-type]


VERBS = ["send", "lease", "extend", "settle", "cancel", "wait", "results", "reports", "aclose"]


class BrokerAlone:
    """A Broker and nothing else."""

    def __init__(self, inner: FaultyBroker) -> None:
        self._inner = inner
        for verb in VERBS:
            setattr(self, verb, getattr(inner, verb))

    def clone(self) -> BrokerAlone:
        return BrokerAlone(self._inner.clone())


def ids(schedule: bee.Schedule[Work], *offsets: float) -> Counter[str]:
    """The ids of the jobs for these seconds after the start."""
    return Counter(schedule.job_id(START + offset) for offset in offsets)


async def test_a_declared_job_is_sent_again_and_again() -> None:
    hive, jobs = hive_for(nothing)
    jobs.schedule("pulse", Work("ping"), every=60)
    async with under_test(hive, clock=ManualClock(START)) as bees:
        await bees.advance(180)

        runs = [id for id in bees.runs if id != MESSAGE]
        assert [
            "pulse@2026-03-28T18:01:00Z",
            "pulse@2026-03-28T18:02:00Z",
            "pulse@2026-03-28T18:03:00Z",
        ] == runs


async def test_the_job_is_sent_as_declared() -> None:
    declared = bee.Schedule(
        "pulse",
        Work("ping"),
        every=60,
        priority=3,
        policy=bee.Policy(timeout=5),
        headers={"a": "b"},
        key="k",
    )
    async with fleet() as f:
        await f.start(declared)
        await f.clock.advance(60)

        (job,) = await f.stored(State.ARCHIVED)

        assert ("pulse@2026-03-28T18:01:00Z", 3, "k") == (job.id, job.priority, job.key)
        assert {"a": "b", "bee-policy": '{"timeout":5.0}'} == dict(job.headers)


async def test_nothing_happens_before_a_worker_starts() -> None:
    hive, jobs = hive_for(nothing)
    jobs.schedule("pulse", Work("ping"), every=60)
    async with hive:
        await jobs.send(Work(), delay=1)

        assert 1 == (await hive.broker.stats("jobs")).live


async def test_many_workers_that_start_at_once_make_one_message() -> None:
    async with fleet() as f:
        await f.start(pulse(), count=8)

        assert [MESSAGE] == await f.live()
        assert Counter() == await f.sent()


async def test_eight_workers_tick_each_instant_once() -> None:
    schedules = [bee.Schedule(f"s{n}", Work(), every=60 + n) for n in range(20)]
    async with fleet() as f:
        await f.start(*schedules, count=8)
        await f.clock.advance(3600)

        assert instants(schedules, START, START + 3600) == await f.sent()
        assert 20 == len(await f.live())
        assert [] == f.heard(ScheduleMissed)


@pytest.mark.parametrize("turns", range(40))
async def test_a_worker_killed_anywhere_around_a_tick_loses_and_doubles_nothing(
    turns: int,
) -> None:
    declared = pulse(late=LEASE + 1)
    async with fleet() as f:
        (first,) = await f.start(declared)
        ticking = asyncio.create_task(f.clock.advance(60))
        for _ in range(turns):
            await asyncio.sleep(0)
        await f.kill(first)
        await ticking
        await f.start(declared)
        await f.clock.advance(LEASE + 1)
        await f.clock.advance(60)

        expected = ids(declared, 60, 120)
        assert expected == await f.sent()
        assert [MESSAGE] == await f.live()
        assert [] == f.heard(ScheduleMissed)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("verb", ["send", "lease", "settle"])
async def test_a_worker_killed_in_the_middle_of_a_verb_loses_and_doubles_nothing(
    verb: str, when: str
) -> None:
    declared = pulse(late=LEASE + 1)
    async with fleet() as f:
        if verb == "send":
            gate = f.broker.gate("send", when=when)  # type: ignore[arg-type]
            (first,) = await f.start(declared)
        else:
            (first,) = await f.start(declared)
            gate = f.broker.gate(verb, when=when)  # type: ignore[arg-type]
            await f.clock.advance(60)
        await gate.reached.wait()
        await f.kill(first)
        await f.start(declared)
        await f.clock.advance(START + 150 - f.clock.now())

        assert ids(declared, 60, 120) == await f.sent()
        assert [MESSAGE] == await f.live()


@pytest.mark.parametrize("verb", ["send", "lease", "settle", "extend", "get"])
@pytest.mark.parametrize("error", [bee.OutcomeUnknown("lost"), bee.BrokerUnavailable("away")])
async def test_answers_that_are_lost_cost_no_instant(verb: str, error: Exception) -> None:
    declared = pulse()
    when = "after" if isinstance(error, bee.OutcomeUnknown) else "before"
    async with fleet() as f:
        f.broker.fail(verb, error, times=3, when=when)  # type: ignore[arg-type]
        await f.start(declared, count=2)
        await f.clock.advance(45)
        for _ in range(10):
            f.broker.fail(verb, error, times=2, when=when)  # type: ignore[arg-type]
            await f.clock.advance(60)

        assert ids(declared, *range(60, 601, 60)) == await f.sent()
        assert [MESSAGE] == await f.live()


async def test_a_full_store_does_not_keep_the_worker_from_its_jobs() -> None:
    declared = pulse()
    async with fleet() as f:
        f.broker.fail("send", bee.BrokerFull("no room"), times=5)
        await f.store.send("jobs", [bee.Draft("a", b'{"v":1,"job":{"type":"work"}}')])
        await f.start(declared)
        assert Counter({"a": 1}) == await f.sent()
        await f.clock.advance(60)

        assert Counter({"a": 1}) + ids(declared, 60) == await f.sent()


async def test_a_failing_job_does_not_stop_its_schedule() -> None:
    declared = bee.Schedule("pulse", Work("fail"), every=60)
    async with fleet() as f:
        await f.start(declared)
        await f.clock.advance(300)

        assert ids(declared, 60, 120, 180, 240, 300) == await f.sent()
        assert {"failed": 5} == dict((await f.store.stats("jobs")).archived)


async def test_a_tick_that_fails_is_tried_again_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = pulse(late=86_400)
    async with fleet() as f:
        await f.start(declared)
        with monkeypatch.context() as patched:
            patched.setattr("bee_core.ticks.tick", lambda *_: 1 / 0)
            await f.clock.advance(7200)
        failures = [e for e in f.events if isinstance(e, AttemptSettled)]
        assert any(isinstance(e.outcome, Failed) for e in failures)
        assert Counter() == await f.sent()
        await f.clock.advance(60)

        assert ids(declared, 60) <= await f.sent()
        assert [MESSAGE] == await f.live()


# Deployments.


async def test_a_changed_declaration_counts_from_the_start_of_the_next_worker() -> None:
    hourly, minutely = pulse(every=3600), pulse(every=60)
    async with fleet() as f:
        (old,) = await f.start(hourly)
        await f.clock.advance(10)
        await f.kill(old)
        await f.start(minutely)
        await f.clock.advance(170)

        assert ids(minutely, 60, 120, 180) == await f.sent()
        assert [MESSAGE] == await f.live()


async def test_what_is_due_by_the_old_declaration_is_sent_by_the_new_one() -> None:
    old, new = pulse(every=60, late=600), pulse(every=3600, late=600)
    async with fleet() as f:
        (worker,) = await f.start(old)
        await f.kill(worker)
        await f.clock.advance(90)
        await f.start(new)
        await f.clock.advance(3600)

        assert ids(old, 60, 3600) == await f.sent()


async def test_old_and_new_workers_side_by_side_send_no_instant_twice() -> None:
    old, new = pulse(every=60), pulse(every=45)
    async with fleet() as f:
        await f.start(old, count=2)
        await f.clock.advance(100)
        await f.start(new, count=2)
        await f.clock.advance(3600)

        sent = await f.sent()
        assert {1} == set(sent.values())
        assert set(sent) <= set(instants([old, new], START, START + 3700))
        assert [MESSAGE] == await f.live()


async def test_a_change_that_was_overlooked_counts_within_a_day() -> None:
    """The new worker cannot look, as its broker is no Inspector."""
    yearly, hourly = pulse(cron="0 0 1 1 *"), pulse(cron="0 * * * *")
    async with fleet() as f:
        (old,) = await f.start(yearly)
        await f.kill(old)
        f.broker = BrokerAlone(f.broker)  # type: ignore[assignment]
        await f.start(hourly)
        await f.clock.advance(86_399)
        assert Counter() == await f.sent()
        await f.clock.advance(1 + 2 * 3600)

        assert ids(hourly, 86_400 + 3600, 86_400 + 7200) == await f.sent()


async def test_a_schedule_that_nobody_declares_any_more_ends_in_the_archive() -> None:
    async with fleet() as f:
        (old,) = await f.start(pulse())
        await f.kill(old)
        await f.start()
        await f.clock.advance(3600)

        assert Counter({MESSAGE: 1}) == await f.sent()
        assert {"unknown": 1} == dict((await f.store.stats("jobs")).archived)


async def test_a_plan_that_cannot_be_read_ends_in_the_archive_and_is_made_anew() -> None:
    declared = pulse()
    async with fleet() as f:
        draft = bee.Draft(MESSAGE, b"{}", headers={"bee-kind": "schedule"})
        await f.store.send("jobs", [draft])
        await f.start(declared)
        await f.clock.advance(3600)

        sent = await f.sent()
        assert 1 == sent.pop(MESSAGE)
        assert ids(declared, 3600) <= sent


async def test_a_schedule_that_was_purged_comes_back_with_the_next_worker() -> None:
    declared = pulse()
    async with fleet() as f:
        await f.start(declared)
        await f.clock.advance(70)
        await f.store.purge("jobs")
        await f.start(declared)
        await f.clock.advance(60)

        assert ids(declared, 60, 120) == await f.sent()


async def test_a_schedule_that_was_purged_comes_back_in_a_while_by_itself() -> None:
    declared = pulse()
    async with fleet() as f:
        await f.start(declared)
        await f.store.purge("jobs")
        await f.clock.advance(EVERY)
        await f.clock.advance(60)

        assert [MESSAGE] == await f.live()
        assert ids(declared, EVERY + 60) == await f.sent()


async def test_a_job_of_the_users_under_the_same_id_harms_nobody() -> None:
    async with fleet() as f:
        await f.store.send("jobs", [bee.Draft(MESSAGE, b'{"v":1,"job":{"type":"work"}}', 100.0)])
        await f.start(pulse())
        await f.clock.advance(EVERY + 60)

        assert 1 == (await f.sent())[MESSAGE]
        assert [MESSAGE] == await f.live()


# What was missed.


@pytest.mark.parametrize(("missed", "sent"), [("once", [600]), ("skip", [])])
async def test_after_an_outage_one_job_is_sent_or_none(missed: str, sent: list[float]) -> None:
    declared = pulse(missed=missed)
    async with fleet() as f:
        (first,) = await f.start(declared)
        await f.kill(first)
        await f.clock.advance(630)
        await f.start(declared)
        assert ids(declared, *sent) == await f.sent()
        await f.clock.advance(60)

        assert ids(declared, *sent, 660) == await f.sent()
        last = declared.job_id(START + 600) if sent else None
        assert [ScheduleMissed("jobs", "pulse", START + 60, 570.0, last)] == f.heard(ScheduleMissed)


async def test_the_log_hears_of_what_was_missed_though_nobody_else_listens(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock(START)
    broker = MemoryBroker(clock=clock)
    for _ in range(2):
        worker = bee.Worker(broker, "jobs", Work, nothing, schedules=[pulse()], clock=clock)
        await worker.run(until_empty=True)
        await clock.advance(630)

    missed = [record for record in caplog.records if "schedule missed" in record.message]
    assert [logging.WARNING] == [record.levelno for record in missed]


async def test_an_outage_of_the_store_is_no_different() -> None:
    declared = pulse()
    async with fleet() as f:
        await f.start(declared, count=3)
        f.broker.go_down(bee.BrokerUnavailable("away"))
        await f.clock.advance(630)
        f.broker.come_back()
        await f.clock.advance(30)
        await f.clock.advance(60)

        assert ids(declared, 600, 660, 720) == await f.sent()
        assert 1 == len(f.heard(ScheduleMissed))


async def test_a_settlement_that_is_delayed_does_not_shift_the_next_instant() -> None:
    declared = pulse(every=3600, missed="skip", late=60)
    async with fleet() as f:
        await f.start(declared)
        f.broker.fail("settle", bee.BrokerUnavailable("away"), times=200)
        f.broker.fail("extend", bee.BrokerUnavailable("away"), times=2)
        await f.clock.advance(3700)
        f.broker._script.faults.clear()
        await f.clock.advance(3600)

        assert ids(declared, 3600, 7200) == await f.sent()
        assert [] == f.heard(ScheduleMissed)


async def test_a_worker_that_is_busy_ticks_when_it_can() -> None:
    """One slot, and a job in it for 100 seconds."""
    clock = ManualClock(START)

    async def slow(job: Work) -> None:
        if job.what == "slow":
            await clock.sleep(100)

    hive, jobs = hive_for(slow, concurrency=1, policy=bee.Policy(timeout=None))
    declared = jobs.schedule("pulse", Work(), every=60, late=300)
    async with under_test(hive, clock=clock) as bees:
        await jobs.send(Work("slow"), delay=50)
        await bees.advance(200)

        runs = [id for id in bees.runs if id.startswith("pulse@")]
        assert [declared.job_id(START + offset) for offset in (60, 180)] == runs
        (missed,) = [event for event in bees.events if isinstance(event, ScheduleMissed)]
        assert (START + 120, runs[0]) == (missed.instant, missed.sent)


async def test_a_backlog_does_not_delay_a_tick() -> None:
    declared = pulse()
    body = b'{"v":1,"job":{"type":"work"}}'
    async with fleet() as f:
        (first,) = await f.start(declared)
        await f.kill(first)
        await f.clock.advance(59)
        await f.store.send("jobs", [bee.Draft(f"{n:04}", body) for n in range(1000)])
        await f.clock.advance(1)

        (lease,) = await f.store.lease("jobs", limit=1, duration=30, holder="me")

        assert MESSAGE == lease.receipt.id


# Clocks.


async def test_a_store_whose_clock_is_set_back_sends_no_instant_twice() -> None:
    declared = pulse()
    async with fleet() as f:
        await f.start(declared, count=3)
        await f.clock.advance(150)
        f.store_clock.offset = -100.0
        await f.clock.advance(100)
        assert ids(declared, 60, 120) == await f.sent()
        await f.start(declared)
        await f.clock.advance(60)

        assert ids(declared, 60, 120, 180) == await f.sent()
        assert [MESSAGE] == await f.live()


async def test_a_store_whose_clock_is_set_back_is_not_fooled_by_a_deployment() -> None:
    old, new = pulse(every=60), pulse(every=30)
    async with fleet() as f:
        (first,) = await f.start(old)
        await f.clock.advance(150)
        f.store_clock.offset = -100.0
        await f.kill(first)
        await f.start(new)
        await f.clock.advance(160)

        assert ids(new, 60, 120, 150, 180, 210) == await f.sent()


@pytest.mark.parametrize("missed", ["once", "skip"])
async def test_a_store_whose_clock_is_set_forward_has_missed_what_it_leapt_over(
    missed: str,
) -> None:
    declared = pulse(missed=missed)
    days = 3 * 86_400.0
    async with fleet() as f:
        await f.start(declared, count=3)
        await f.clock.advance(90)
        f.store_clock.offset = days
        await f.clock.advance(60)

        leapt = [days + 120] if missed == "once" else []
        assert ids(declared, 60, *leapt) == await f.sent()
        assert 1 == len(f.heard(ScheduleMissed))
        await f.clock.advance(60)
        assert ids(declared, 60, *leapt, days + 180) == await f.sent()


async def test_the_clocks_of_workers_do_not_matter() -> None:
    declared = pulse()
    async with fleet() as f:
        f.store_clock = f.store._memory.clock = StoreClock(f.clock)
        f.store_clock.offset = 1_000_000.0
        await f.start(declared)
        await f.clock.advance(60)

        first = declared.timing.after(START + 1_000_000)
        assert Counter([declared.job_id(first)]) == await f.sent()


# A queue that holds nothing else.


async def test_until_empty_means_empty_but_for_schedules() -> None:
    broker = FaultyBroker(MemoryBroker())
    hive = bee.Hive(broker=broker, observers=())
    jobs = hive.queue("jobs", Work)
    other = hive.queue("other", Work)
    ran: list[str] = []

    async def handle(job: Work) -> None:
        ran.append(job.what)

    jobs.handler(handle)
    other.handler(handle)
    for n in range(5):
        jobs.schedule(f"s{n}", Work(), every=86_400 + n)
    async with hive:
        await jobs.send(Work("a"))
        await other.send(Work("b"), delay=0.05)
        await asyncio.wait_for(hive.run(until_empty=True), 5)

        assert ["a", "b"] == ran
        assert 5 == (await broker.stats("jobs")).delayed


async def test_until_empty_waits_for_a_job_that_is_delayed_beside_a_schedule() -> None:
    hive, jobs = hive_for(nothing)
    jobs.schedule("pulse", Work(), every=86_400)
    async with hive:
        await jobs.send(Work("a"), delay=0.1)
        await asyncio.wait_for(hive.run(until_empty=True), 5)

        assert 1 == (await hive.broker.stats("jobs")).live


async def test_until_empty_plans_the_schedules_first() -> None:
    broker = FaultyBroker(MemoryBroker())
    broker.fail("send", bee.BrokerUnavailable("away"), times=3)
    hive = bee.Hive(broker=broker, observers=())
    jobs = hive.queue("jobs", Work)
    jobs.handler(nothing)
    jobs.schedule("pulse", Work(), every=86_400)
    async with hive:
        await asyncio.wait_for(hive.run(until_empty=True), 5)

        assert 1 == (await broker.stats("jobs")).delayed


async def test_a_tick_is_not_one_of_max_jobs() -> None:
    async with fleet() as f:
        worker = f.worker(pulse())
        f.workers[worker] = task = asyncio.create_task(worker.run(max_jobs=2))
        await worker.started()
        await f.clock.advance(120)
        await asyncio.wait_for(task, 5)
        del f.workers[worker]

        assert 2 == len(await f.sent())


async def test_a_worker_leaves_while_it_plans() -> None:
    hive, jobs = hive_for(nothing)
    jobs.schedule("pulse", Work(), every=60)
    async with at_work(nothing) as (bees, _):
        bees.broker.go_down(bee.BrokerUnavailable("away"))
        with hive.substitute(bees.broker, clock=bees.clock, observers=()):
            task = await hive.start()
            await bees.advance(5)
            hive.stop()
            await bees.advance(5)
            await asyncio.wait_for(task, 5)
        bees.broker.come_back()


# A week.


def a_hundred() -> list[bee.Schedule[Work]]:
    """Mixed ones, none more often than a worker that dies is replaced."""
    zones = ["Europe/Berlin", "Australia/Lord_Howe", "Australia/Sydney", "UTC"]
    made = []
    for n in range(100):
        if n % 3 == 0:
            options: dict[str, object] = {"every": 3600 + 61 * n}
        elif n % 3 == 1:
            options = {"cron": f"{n % 60} {n % 5} * * *", "tz": zones[n % 4]}
        else:
            options = {"cron": f"{n % 60} */2 * * *", "tz": zones[n % 4]}
        made.append(bee.Schedule(f"s{n}", Work(), late=1800, **options))  # type: ignore[arg-type]
    return made


async def test_a_week_with_two_changes_of_clocks_and_workers_killed_at_random() -> None:
    schedules, chance = a_hundred(), random.Random(5)
    week = 8 * 86_400.0
    async with fleet() as f:
        await f.start(*schedules, count=3)
        kills = 0
        while f.clock.now() < START + week:
            await f.clock.advance(chance.uniform(100, 6000))
            ticking = asyncio.create_task(f.clock.advance(chance.uniform(100, 3000)))
            for _ in range(chance.randrange(60)):
                await asyncio.sleep(0)
            await f.kill(chance.choice(list(f.workers)))
            kills += 1
            await ticking
            await f.start(*schedules)
        end = f.clock.now()
        await f.clock.advance(2 * LEASE)

        sent = await f.sent()
        expected = instants(schedules, START, end)
        assert Counter() == expected - sent
        assert Counter() == sent - instants(schedules, START, end + 2 * LEASE)
        assert len(expected) > 7000
        assert kills > 100
        assert 100 == len(await f.live())
        assert [] == f.heard(ScheduleMissed)
