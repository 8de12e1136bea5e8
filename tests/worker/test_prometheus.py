"""Metrics for Prometheus, as they are scraped."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, get_args

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import bee_core as bee
from bee_core.clock import SYSTEM_CLOCK
from bee_core.disposition import Archive, Delete, Reschedule
from bee_core.errors import BrokerUnavailable
from bee_core.events import (
    AttemptLost,
    AttemptSettled,
    AttemptStarted,
    BrokerAilment,
    BrokerRecovered,
    BrokerTrouble,
    ConcurrencyChanged,
    Event,
    EventsDropped,
    HandlerStuck,
    LoopBlocked,
    ProcessEnded,
    ProcessSlowed,
    ProcessStarted,
    ResultDropped,
    ScheduleMissed,
    SettlementRefused,
    WorkerStarted,
    WorkerStopped,
)
from bee_core.message import ZERO, Reason
from bee_core.outcome import (
    Failed,
    Interrupted,
    Malformed,
    Outcome,
    Ruled,
    Stalled,
    Succeeded,
    TimedOut,
    Unknown,
)
from bee_core.prometheus import PrometheusObserver, queue_metrics
from bee_core.stored import Finding
from bee_core.testing import FaultyBroker, ManualClock
from bee_memory import MemoryBroker
from bee_redis import RedisBroker
from tests.servers import RedisServer

from .support import Work, hive_for, until

OUTCOMES: list[Outcome] = [
    Succeeded(),
    Failed(OSError()),
    TimedOut(1.0),
    Stalled(),
    Interrupted(),
    Malformed("?"),
    Unknown("?"),
    Ruled(Delete()),
]


class Scrapes:
    """A registry, and what a scrape of it shows."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

    def __call__(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)

    def names(self) -> set[str]:
        text = generate_latest(self.registry).decode()
        return {
            sample.name
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if not sample.name.endswith("_created")
        }

    def labels(self) -> set[str]:
        """Every value of every label there is."""
        return {
            value
            for family in self.registry.collect()
            for sample in family.samples
            for value in sample.labels.values()
        }


@pytest.fixture
def scrape() -> Scrapes:
    return Scrapes()


@pytest.fixture
def observe(scrape: Scrapes) -> PrometheusObserver:
    return PrometheusObserver(registry=scrape.registry)


def started(token: int, holder: str = "one") -> AttemptStarted:
    return AttemptStarted("mail", f"id-{token}", token, "email", 1, holder)


def settled(token: int, outcome: Outcome, to: Delete | Archive | Reschedule) -> AttemptSettled:
    return AttemptSettled("mail", f"id-{token}", token, "email", 1, outcome, to, ZERO, 0.25)


ONE_OF_EACH: Sequence[Event] = [
    WorkerStarted("mail", "one"),
    started(1),
    settled(1, Succeeded(), Delete()),
    AttemptLost("mail", "id-2", 2, "email"),
    HandlerStuck("mail", "id-3", 3, "email", 1),
    LoopBlocked("mail", ("id-1",), "stack"),
    BrokerTrouble("mail", "lease", OSError()),
    BrokerRecovered("mail", "lease"),
    BrokerAilment("mail", Finding("old transaction", "End it")),
    SettlementRefused("mail", "id-4", 4, OSError()),
    ResultDropped("mail", "id-1", 1, "email", "too large"),
    ScheduleMissed("mail", "nightly", 1.0, 2.0, "id-5"),
    WorkerStopped("mail", "one", 1, 0),
    ProcessStarted(1, 77),
    ProcessEnded(1, 77, None, "SIGKILL", wanted=False),
    ProcessSlowed(1, 5, 30.0),
    EventsDropped(3),
    ConcurrencyChanged("mail", 7, 0.5, 0.01),
]


def test_every_event_is_heard_and_no_id_becomes_a_label(
    observe: PrometheusObserver, scrape: Scrapes
) -> None:
    for event in ONE_OF_EACH:
        observe(event)

    assert {type(event) for event in ONE_OF_EACH} == set(get_args(Event))
    assert [] == [value for value in scrape.labels() if "id-" in value]
    counters = {
        "bee_attempts_lost_total": {"tag": "email"},
        "bee_handlers_stuck_total": {"tag": "email"},
        "bee_results_dropped_total": {"tag": "email"},
        "bee_loop_blocked_total": {},
        "bee_settlements_refused_total": {},
        "bee_broker_trouble_total": {"verb": "lease"},
        "bee_broker_recovered_total": {"verb": "lease"},
        "bee_broker_ailments_total": {"topic": "old transaction"},
        "bee_schedules_missed_total": {"schedule": "nightly"},
    }
    assert 1.0 == scrape("bee_processes_ended_total", process="1", wanted="false")
    assert 1.0 == scrape("bee_crash_loops_total", process="1")
    assert 3.0 == scrape("bee_events_dropped_total")
    assert 7.0 == scrape("bee_concurrency", queue="mail")
    assert {name: scrape(name, queue="mail", **more) for name, more in counters.items()} == (
        dict.fromkeys(counters, 1.0)
    )


def test_the_page_lists_every_metric(observe: PrometheusObserver, scrape: Scrapes) -> None:
    from tests.docs.markdown import ROOT, sections, tables

    for event in ONE_OF_EACH:
        observe(event)
    page = sections(ROOT / "docs" / "reference" / "metrics.md")
    listed = {row[0].strip("`") for row in tables(page["Metrics"])} - {"metric"}

    shown = {name.removesuffix("_bucket") for name in scrape.names()}
    shown -= {name for name in shown if name.endswith(("_sum", "_count"))}
    queue = {name for name in listed if name.startswith("bee_queue_")}
    assert shown == listed - queue
    assert {
        "bee_queue_jobs",
        "bee_queue_oldest_due_seconds",
        "bee_queue_archived_jobs",
        "bee_queue_paused",
        "bee_queue_looks_failed_total",
    } == queue


def test_the_page_says_of_what_kind_they_are_and_what_labels_they_have(
    observe: PrometheusObserver, scrape: Scrapes
) -> None:
    from tests.docs.markdown import ROOT, sections, tables

    for event in ONE_OF_EACH:
        observe(event)
    page = sections(ROOT / "docs" / "reference" / "metrics.md")
    rows = {row[0].strip("`"): row[1:3] for row in tables(page["Metrics"])}

    for family in scrape.registry.collect():
        kind, labels = rows[family.name + "_total" * (family.type == "counter")]
        has = {name for sample in family.samples for name in sample.labels} - {"le"}
        named = set(re.findall(r"`(\w+)`", labels.replace("no `queue`", "")))
        assert family.type == kind
        assert has == named | ({"queue"} if "no `queue`" not in labels else set())


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
def test_attempts_are_counted_by_outcome(
    outcome: Outcome, observe: PrometheusObserver, scrape: Scrapes
) -> None:
    observe(settled(1, outcome, Archive()))

    counts = {
        word: scrape("bee_attempts_total", queue="mail", tag="email", outcome=word)
        for word in get_args(Reason)
    }
    assert [1.0] == [count for count in counts.values() if count]
    assert {type(one) for one in OUTCOMES} == set(get_args(Outcome))


def test_what_may_be_counted_begins_at_0(observe: PrometheusObserver, scrape: Scrapes) -> None:
    observe(WorkerStarted("mail", "one"))
    observe(started(1))

    assert 0.0 == scrape("bee_attempts_total", queue="mail", tag="email", outcome="timed_out")
    assert 0.0 == scrape("bee_fates_total", queue="mail", tag="email", fate="archived")
    assert 0.0 == scrape("bee_loop_blocked_total", queue="mail")


@pytest.mark.parametrize(
    ("to", "fate"),
    [(Delete(), "deleted"), (Archive(), "archived"), (Reschedule(3.0), "rescheduled")],
)
def test_what_became_of_jobs_is_counted(
    to: Any, fate: str, observe: PrometheusObserver, scrape: Scrapes
) -> None:
    observe(settled(1, Succeeded(), to))

    assert 1.0 == scrape("bee_fates_total", queue="mail", tag="email", fate=fate)


def test_only_what_ran_has_a_duration(observe: PrometheusObserver, scrape: Scrapes) -> None:
    observe(started(1))
    observe(settled(1, Succeeded(), Delete()))
    observe(settled(2, Malformed("?"), Archive()))

    name = "bee_attempt_duration_seconds"
    assert 1.0 == scrape(f"{name}_count", queue="mail", tag="email")
    assert 0.25 == scrape(f"{name}_sum", queue="mail", tag="email")
    assert 0.0 == scrape(f"{name}_bucket", queue="mail", tag="email", le="0.1")


def test_the_number_of_running_jobs_is_right_whatever_happens_to_them(
    observe: PrometheusObserver, scrape: Scrapes
) -> None:
    def running() -> float | None:
        return scrape("bee_running_jobs", queue="mail")

    for event in [WorkerStarted("mail", "one"), WorkerStarted("mail", "two")]:
        observe(event)
    assert (0.0, 2.0) == (running(), scrape("bee_workers", queue="mail"))
    for token in range(1, 6):
        observe(started(token, "one" if token < 5 else "two"))
    assert 5.0 == running()

    observe(settled(1, Failed(OSError()), Reschedule(1.0)))
    observe(AttemptLost("mail", "id-2", 2, "email"))
    observe(SettlementRefused("mail", "id-3", 3, OSError()))
    observe(settled(9, Malformed("?"), Archive()))
    observe(AttemptLost("mail", "id-2", 2, "email"))
    assert 2.0 == running()

    observe(WorkerStopped("mail", "one", 1, 0))  # killed: nothing is said of the fourth
    assert (1.0, 1.0) == (running(), scrape("bee_workers", queue="mail"))
    observe(settled(5, Succeeded(), Delete()))
    observe(WorkerStopped("mail", "two", 1, 0))
    observe(WorkerStopped("mail", "two", 1, 0))
    assert (0.0, 0.0) == (running(), scrape("bee_workers", queue="mail"))


def test_what_a_process_ran_that_died_no_longer_runs(
    observe: PrometheusObserver, scrape: Scrapes
) -> None:
    for token, holder in enumerate(["host:17:a", "host:17:b", "host:18:17"]):
        observe(WorkerStarted("mail", holder))
        observe(started(token, holder))

    observe.process_ended(17)

    assert 1.0 == scrape("bee_workers", queue="mail") == scrape("bee_running_jobs", queue="mail")


async def test_the_worker_names_itself_so_that_its_end_can_be_told(scrape: Scrapes) -> None:
    async def handle(job: Work) -> None:
        observer.process_ended(os.getpid())
        seen.append(scrape("bee_running_jobs", queue="jobs"))

    seen: list[float | None] = []
    observer = PrometheusObserver(registry=scrape.registry)
    hive, jobs = hive_for(handle)
    with hive.substitute(MemoryBroker(), observers=[observer]):
        async with hive:
            await jobs.send(Work())
            await hive.run(until_empty=True)

    assert [0.0] == seen


def test_a_second_observer_of_the_same_name_is_refused(
    observe: PrometheusObserver, scrape: Scrapes
) -> None:
    with pytest.raises(bee.InvalidOption, match="One observer may serve several hives"):
        PrometheusObserver(registry=scrape.registry)


async def test_a_hive_is_counted(scrape: Scrapes) -> None:
    async def handle(job: Work) -> None:
        during.append(scrape("bee_running_jobs", queue="jobs"))
        if job.what == "bad":
            raise ValueError

    during: list[float | None] = []
    hive, jobs = hive_for(handle, policy=bee.Policy(on_error=bee.Archive()), concurrency=1)
    observer = PrometheusObserver(registry=scrape.registry, prefix="shop")
    observer_too = PrometheusObserver(registry=scrape.registry)
    with hive.substitute(MemoryBroker(), observers=[observer, observer_too]):
        async with hive:
            await jobs.send_many([Work("good"), Work("bad"), Work("good")])
            await hive.run(until_empty=True)

    assert (3, 1.0) == (len(during), during[0])
    assert {1.0, 2.0} >= set(during)  # the one before may not be settled yet
    assert 0.0 == scrape("bee_running_jobs", queue="jobs") == scrape("bee_workers", queue="jobs")
    name = "shop_attempts_total"
    assert 2.0 == scrape(name, queue="jobs", tag="work", outcome="succeeded")
    assert 1.0 == scrape(name, queue="jobs", tag="work", outcome="failed")
    assert 1.0 == scrape("shop_fates_total", queue="jobs", tag="work", fate="archived")


@asynccontextmanager
async def watched(store: Any, clock: Any, scrape: Scrapes, *queues: str) -> AsyncIterator[None]:
    work = queue_metrics(store, queues, every=10, registry=scrape.registry, clock=clock)
    task = asyncio.create_task(work)
    try:
        await until(lambda: "bee_queue_paused" in scrape.names() or task.done())
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_the_figures_of_queues_are_looked_up_now_and_then(scrape: Scrapes) -> None:
    clock = ManualClock()
    store = MemoryBroker(clock=clock)
    queue = bee.Queue(store, "mail", Work)
    async with watched(store, clock, scrape, "mail"):
        await queue.send_many([Work(), Work()])
        await queue.send(Work(), delay=1_000)
        [lease] = await store.lease("mail", limit=1, duration=500, holder="one")
        await store.settle("mail", [bee.Settlement(lease.receipt, Archive(), bee.Note("failed"))])
        await store.lease("mail", limit=1, duration=500, holder="one")
        await queue.send(Work())
        await store.pause("mail")
        assert 0.0 == scrape("bee_queue_jobs", queue="mail", state="ready")

        await clock.advance(10)

        states = ["ready", "delayed", "leased", "blocked"]
        counts = [scrape("bee_queue_jobs", queue="mail", state=state) for state in states]
        assert [1.0, 1.0, 1.0, 0.0] == counts
        assert 10.0 == scrape("bee_queue_oldest_due_seconds", queue="mail")
        assert 1.0 == scrape("bee_queue_archived_jobs", queue="mail", reason="failed")
        assert 1.0 == scrape("bee_queue_paused", queue="mail")
    assert set() == scrape.names()


async def test_no_figure_is_better_than_an_old_one(
    scrape: Scrapes, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    store = FaultyBroker(MemoryBroker(clock=clock))
    async with watched(store, clock, scrape, "mail"):
        store.fail("stats", BrokerUnavailable("gone"), times=2)
        await clock.advance(20)

        assert {"bee_queue_looks_failed_total"} == scrape.names()
        assert 2.0 == scrape("bee_queue_looks_failed_total", queue="mail")
        [record] = caplog.records
        assert 'no figures queue=mail error="BrokerUnavailable: gone"' == record.getMessage()

        await clock.advance(10)
        assert 0.0 == scrape("bee_queue_paused", queue="mail")


async def test_figures_of_a_loop_that_no_longer_turns_are_not_shown(scrape: Scrapes) -> None:
    clock = ManualClock()
    store = FaultyBroker(MemoryBroker(clock=clock))
    async with watched(store, clock, scrape, "mail"):
        gate = store.gate("stats")
        await clock.advance(20)
        assert 0.0 == scrape("bee_queue_paused", queue="mail")

        await clock.advance(11)
        assert scrape("bee_queue_paused", queue="mail") is None

        gate.open()
        await clock.settle()
        assert 0.0 == scrape("bee_queue_paused", queue="mail")


async def test_a_broker_that_is_closed_ends_the_looking(scrape: Scrapes) -> None:
    store = MemoryBroker()
    await store.aclose()

    with pytest.raises(bee.BrokerClosed):
        await queue_metrics(store, ["mail"], registry=scrape.registry)

    assert set() == scrape.names()


@pytest.mark.parametrize("options", [{"queues": ["Not a name"]}, {"every": 0}])
async def test_bad_options_are_refused(scrape: Scrapes, options: dict[str, Any]) -> None:
    with pytest.raises(bee.InvalidInput):
        await queue_metrics(
            MemoryBroker(), **({"queues": ["mail"]} | options), registry=scrape.registry
        )


async def test_the_figures_of_a_real_server_are_scraped_from_another_thread(
    valkey: RedisServer, scrape: Scrapes
) -> None:
    async with RedisBroker(valkey.url) as store:
        await store.drop("metrics")
        await bee.Queue(store, "metrics", Work).send_many([Work(), Work()])
        seen: list[float | None] = []
        async with watched(store, SYSTEM_CLOCK, scrape, "metrics"):
            thread = threading.Thread(
                target=lambda: seen.append(scrape("bee_queue_jobs", queue="metrics", state="ready"))
            )
            thread.start()
            await until(lambda: seen)
            thread.join()
        await store.drop("metrics")

    assert [2.0] == seen


@pytest.mark.parametrize(
    ("module", "missing"),
    [("prometheus", "prometheus_client"), ("opentelemetry", "opentelemetry")],
)
def test_a_package_that_is_missing_is_named_with_what_to_install(module: str, missing: str) -> None:
    program = f"import sys; sys.modules[{missing!r}] = None; import bee_core.{module}"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    last = answer.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError")
    assert last.endswith(f'is needed: pip install "bee-jobs[{module}]"')
