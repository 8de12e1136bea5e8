"""Moving queues: all arrives as it was, once, and whatever happens on the way nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import pytest

import bee_core as bee
from bee_core.message import Draft, Lease, Note, Settlement
from bee_core.moving import is_same_store, move, survey
from bee_core.moving.events import Event, Found, Moved, Progress, Setback, Waiting
from bee_core.stored import State
from bee_core.testing import FaultyBroker, ManualClock
from bee_memory import MemoryBroker

from .moving import AWAITED, SCHEDULED, Filled, Seen, differences, fill, look

T = TypeVar("T")
QUEUE = "mail"


class Killed(Exception):
    """The process is gone."""


class Mortal(FaultyBroker):
    """Dies at a call, before or after it is applied, whatever the call is."""

    def __init__(self, inner: bee.Store, life: Life) -> None:
        super().__init__(inner)
        self._life = life

    async def _pass(self, verb: str, call: Callable[[], Awaitable[T]]) -> T:
        self._life.step()
        answer = await call()
        self._life.step()
        return answer


class Life:
    """So many steps."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def step(self) -> None:
        if self.steps == 0:
            raise Killed
        self.steps -= 1


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def source(clock: ManualClock) -> FaultyBroker:
    return FaultyBroker(MemoryBroker(clock=clock))


@pytest.fixture
def destination(clock: ManualClock) -> FaultyBroker:
    return FaultyBroker(MemoryBroker(clock=clock))


async def filled(store: bee.Store, clock: ManualClock, number: int = 60) -> tuple[Filled, Seen]:
    contents = await fill(store, QUEUE, number, clock.advance)
    return contents, await look(store, QUEUE)


async def move_now(
    source: bee.Store, destination: bee.Store, clock: ManualClock, **options: Any
) -> Moved:
    """A move of the one queue that has nobody to wait for."""
    usual: dict[str, Any] = {"wait": 0.0, "patience": 0.0, "clock": clock, "batch": 7}
    (report,) = await move(source, destination, [QUEUE], **usual | options)
    return report


async def lease_one(store: bee.Store, duration: float = 60.0) -> Lease:
    (lease,) = await store.lease(QUEUE, limit=1, duration=duration, holder="ann:1")
    return lease


async def ids(store: bee.Store, state: State) -> list[str]:
    return [one.id for one in (await store.scan(QUEUE, state, limit=1000)).items]


async def waiting(store: bee.Store) -> list[str]:
    return await ids(store, State.READY) + await ids(store, State.DELAYED)


async def test_everything_arrives_as_it_was(
    source: FaultyBroker, destination: FaultyBroker, clock: ManualClock
) -> None:
    contents, before = await filled(source, clock)

    report = await move_now(source, destination, clock)

    assert [] == differences(before, await look(destination, QUEUE), contents)
    assert {"ready": 0, "delayed": 0, "archived": 0} == (await look(source, QUEUE)).counts
    assert (report.found, 0, {}) == (report.moved, report.already, report.left)
    assert sum(before.counts.values()) == report.found
    assert report.is_complete
    assert [] == list(await source.queues())


async def test_every_queue_is_moved_unless_some_are_named(
    source: FaultyBroker, destination: FaultyBroker, clock: ManualClock
) -> None:
    for queue in ("a", "b", "c"):
        await source.send(queue, [Draft("x", b"")])

    named = await move(source, destination, ["b", "b"], clock=clock)
    others = await move(source, destination, clock=clock)

    assert ["b"] == [report.queue for report in named]
    assert ["a", "c"] == [report.queue for report in others]
    assert ["a", "b", "c"] == list(await destination.queues())


async def test_groups_complete_at_the_destination(
    source: FaultyBroker, destination: FaultyBroker, clock: ManualClock
) -> None:
    contents, _ = await filled(source, clock)
    await move_now(source, destination, clock)

    while leases := await destination.lease(QUEUE, limit=100, duration=60, holder="bob:1"):
        children = [x for x in leases if x.reports_to]
        ends = [Settlement(x.receipt, bee.Delete(), Note("succeeded")) for x in children]
        await destination.settle(QUEUE, ends)

    for id in contents.groups:
        assert AWAITED == len(await destination.reports(QUEUE, id))
        parent = await destination.get(QUEUE, id)
        assert parent is not None
        assert parent.state is State.LEASED


async def test_tokens_go_on_growing_even_if_nothing_is_left_to_move(
    source: FaultyBroker, destination: FaultyBroker, clock: ManualClock
) -> None:
    for n in range(100):
        await source.send(QUEUE, [Draft(str(n), b"")])
        last = await lease_one(source)
        await source.settle(QUEUE, [Settlement(last.receipt, bee.Delete())])

    await move_now(source, destination, clock)

    await destination.send(QUEUE, [Draft("next", b"")])
    assert (await lease_one(destination)).receipt.token > last.receipt.token


async def test_a_survey_changes_nothing(source: FaultyBroker, clock: ManualClock) -> None:
    _, before = await filled(source, clock)

    (found,) = await survey(source)

    assert sum(before.counts.values()) == found.total
    assert before == await look(source, QUEUE)
    assert not (await source.stats(QUEUE)).paused
    assert {"queues", "stats", "scan", "reports"} >= source.calls.keys() - {
        *("send", "lease", "settle", "extend"),
    }


async def test_an_unknown_queue_is_refused_with_the_known_ones(
    source: FaultyBroker, destination: FaultyBroker
) -> None:
    await source.send("mail", [Draft("a", b"")])

    with pytest.raises(bee.InvalidName, match="no queue 'male' at the source; there are: mail"):
        await move(source, destination, ["male"])


async def test_a_store_is_not_moved_to_itself(source: FaultyBroker) -> None:
    await source.send(QUEUE, [Draft("a", b"")])

    with pytest.raises(bee.InvalidOption, match="are the same store"):
        await move(source, source.clone())

    assert not (await source.stats(QUEUE)).paused
    assert [] == list(await source.workers(QUEUE))
    assert not await is_same_store(source, MemoryBroker(), QUEUE)


# What runs, and what has stopped running.


async def test_a_running_job_may_end_before_the_move(
    source: FaultyBroker, destination: FaultyBroker, clock: ManualClock
) -> None:
    await source.send(QUEUE, [Draft("a", b""), Draft("b", b"")])
    lease = await lease_one(source)
    heard: list[Event] = []

    moving = asyncio.create_task(
        move(source, destination, [QUEUE], wait=30, clock=clock, tell=heard.append)
    )
    await clock.advance(5)
    assert not moving.done()
    again = Settlement(lease.receipt, bee.Reschedule(60), Note("failed"))
    assert set() == await source.settle(QUEUE, [again])
    await clock.advance(1)

    assert moving.done()
    assert moving.result()[0].is_complete
    assert [Waiting(queue=QUEUE, leased=1, seconds=30)] == [
        event for event in heard if isinstance(event, Waiting)
    ]
    assert ["b", "a"] == await waiting(destination)


async def test_a_job_that_runs_on_stays_with_its_successor_and_the_source_stays_paused(
    source: FaultyBroker, destination: FaultyBroker, clock: ManualClock
) -> None:
    await source.send(QUEUE, [Draft("a", b"1"), Draft("b", b"")])
    lease = await lease_one(source)
    await source.send(QUEUE, [Draft("a", b"2", if_taken=bee.Update())])

    report = await move_now(source, destination, clock)

    assert {"running": 1} == report.left
    assert (report.paused, report.was_paused) == (True, False)
    assert ["b"] == await waiting(destination)
    assert ["a"] == await ids(source, State.LEASED) == await ids(source, State.BLOCKED)
    await source.settle(QUEUE, [Settlement(lease.receipt, bee.Delete())])
    assert (await move_now(source, destination, clock)).is_complete
    assert ["b", "a"] == await waiting(destination)


async def test_a_group_stays_together_while_one_of_it_runs(
    source: FaultyBroker, destination: FaultyBroker, clock: ManualClock
) -> None:
    outer = Draft("outer", b"", 900, awaits=1)
    inner = Draft("inner", b"", 900, awaits=2, reports_to="outer")
    children = [Draft(id, b"", reports_to="inner") for id in ("one", "two")]
    await source.send(QUEUE, [*children, outer, inner, Draft("other", b"")])
    lease = await lease_one(source)

    report = await move_now(source, destination, clock)

    assert {"running": 1, "group": 3} == report.left
    assert ["other"] == await waiting(destination)
    await source.settle(QUEUE, [Settlement(lease.receipt, bee.Delete(), result=b"1")])
    assert (await move_now(source, destination, clock)).is_complete
    assert [b"1"] == [one.result for one in await destination.reports(QUEUE, "inner")]


async def test_a_group_within_a_group_follows_it(
    source: FaultyBroker, destination: FaultyBroker, clock: ManualClock
) -> None:
    await source.send(QUEUE, [Draft("child", b"", reports_to="9")])
    for n in range(10):  # the innermost first
        await source.send(QUEUE, [Draft(str(9 - n), b"", 900, awaits=1, reports_to=str(8 - n))])

    report = await move_now(source, destination, clock, batch=1)

    assert report.is_complete
    assert [*map(str, range(10))] == sorted(await ids(destination, State.DELAYED))


async def test_a_lease_that_ran_out_is_taken_over_and_its_worker_fenced_off(
    source: FaultyBroker, destination: FaultyBroker, clock: ManualClock
) -> None:
    await source.send(QUEUE, [Draft("a", b"1")])
    lease = await lease_one(source, duration=1)
    await source.send(QUEUE, [Draft("a", b"2", if_taken=bee.Update(run_at="never"))])
    await clock.advance(2)

    report = await move_now(source, destination, clock)

    assert report.is_complete
    found = await destination.get(QUEUE, "a")
    assert found is not None
    assert (b"2", ["stalled"]) == (found.body, [episode.reason for episode in found.history])
    assert {lease.receipt} == await source.settle(QUEUE, [Settlement(lease.receipt, bee.Delete())])


async def test_one_that_awaits_others_and_whose_lease_ran_out_goes_with_its_reports(
    source: FaultyBroker, destination: FaultyBroker, clock: ManualClock
) -> None:
    await source.send(QUEUE, [Draft("all", b"", 900, awaits=1)])
    await source.send(QUEUE, [Draft("one", b"", reports_to="all")])
    one = await lease_one(source)
    await source.settle(QUEUE, [Settlement(one.receipt, bee.Delete(), result=b"1")])
    assert "all" == (await lease_one(source, duration=1)).receipt.id
    await clock.advance(2)

    await move_now(source, destination, clock)

    assert "all" == (await lease_one(destination)).receipt.id
    assert [b"1"] == [one.result for one in await destination.reports(QUEUE, "all")]


# What is there already.


async def test_what_an_interrupted_run_has_copied_is_not_copied_twice(
    source: FaultyBroker, destination: FaultyBroker, clock: ManualClock
) -> None:
    contents, before = await filled(source, clock)
    destination.fail("adopt", Killed(), when="after", times=4)
    source.fail("expel", Killed())
    while True:
        try:
            report = await move_now(source, destination, clock)
            break
        except Killed:
            assert (await source.stats(QUEUE)).paused

    assert [] == differences(before, await look(destination, QUEUE), contents)
    assert report.already > 0
    assert {} == report.left
    assert (True, True) == (report.was_paused, report.paused)


async def test_another_job_of_the_same_id_is_a_conflict_and_stays(
    source: FaultyBroker, destination: FaultyBroker, clock: ManualClock
) -> None:
    await source.send(QUEUE, [Draft(id, b"old") for id in ("a", "b", "c")])
    await destination.send(QUEUE, [Draft("b", b"new")])

    report = await move_now(source, destination, clock)

    assert ({"conflict": 1}, ["b"], 2) == (report.left, list(report.conflicts), report.moved)
    assert ["b"] == await waiting(source)
    found = await destination.get(QUEUE, "b")
    assert found is not None
    assert found.body == b"new"


async def test_the_same_job_sent_to_both_is_one_job(
    source: FaultyBroker, destination: FaultyBroker, clock: ManualClock
) -> None:
    await source.send(QUEUE, [Draft("a", b"same")])
    await clock.advance(5)
    await destination.send(QUEUE, [Draft("a", b"same")])

    report = await move_now(source, destination, clock)

    assert (1, 1, {}) == (report.moved, report.already, report.left)
    assert ["a"] == await waiting(destination)


async def test_a_schedule_that_the_destination_keeps_already_is_no_conflict(
    source: FaultyBroker, destination: FaultyBroker, clock: ManualClock
) -> None:
    await filled(source, clock)
    old = await source.get(QUEUE, SCHEDULED)
    assert old is not None
    await destination.send(QUEUE, [Draft(SCHEDULED, b"{}", 60, 9, old.headers)])

    assert (await move_now(source, destination, clock)).is_complete
    found = await destination.get(QUEUE, SCHEDULED)
    assert found is not None
    assert found.body == b"{}"


async def test_an_archived_message_of_each_life_of_an_id_is_moved_in_order(
    source: FaultyBroker, destination: FaultyBroker, clock: ManualClock
) -> None:
    for n in range(20):
        await source.send(QUEUE, [Draft("a", b"%d" % n)])
        lease = await lease_one(source)
        await source.settle(QUEUE, [Settlement(lease.receipt, bee.Archive(), Note("failed"))])
        await clock.advance(0.001)
    await source.send(QUEUE, [Draft("a", b"live")])
    before = await look(source, QUEUE)

    await move_now(source, destination, clock, batch=3)

    assert [] == differences(before, await look(destination, QUEUE), Filled())
    await destination.cancel(QUEUE, ["a"], to=bee.Delete())
    last = await destination.get(QUEUE, "a")
    assert last is not None
    assert last.body == b"19"


async def test_what_was_reported_to_an_archived_message_can_be_read_when_it_is_restored(
    source: FaultyBroker, destination: FaultyBroker, clock: ManualClock
) -> None:
    await source.send(QUEUE, [Draft("all", b"", 900, awaits=1)])
    await source.send(QUEUE, [Draft("one", b"", reports_to="all")])
    for way in (bee.Delete(), bee.Archive()):
        lease = await lease_one(source)
        await source.settle(QUEUE, [Settlement(lease.receipt, way, Note("failed"), result=b"1")])

    await move_now(source, destination, clock)

    await destination.restore(QUEUE, ["all"])
    assert [b"1"] == [one.result for one in await destination.reports(QUEUE, "all")]


async def test_another_group_of_the_same_id_hears_nothing_of_this_one(
    source: FaultyBroker, destination: FaultyBroker, clock: ManualClock
) -> None:
    """Neither of one that waits, nor of one that is archived."""
    for id, way in (("waits", None), ("archived", bee.Archive())):
        await source.send(QUEUE, [Draft(id, b"", 900, awaits=2 if way is None else 1)])
        await source.send(QUEUE, [Draft("one", b"", reports_to=id)])
        for end in (bee.Delete(), way):
            if end is not None:
                lease = await lease_one(source)
                await source.settle(QUEUE, [Settlement(lease.receipt, end, Note("failed"))])
        await destination.send(QUEUE, [Draft(id, b"other", 900, awaits=1)])

    report = await move_now(source, destination, clock)

    assert ({"conflict": 1}, ["waits"]) == (report.left, list(report.conflicts))
    for id in ("waits", "archived"):
        assert [] == list(await destination.reports(QUEUE, id))


async def test_large_jobs_make_small_batches(
    source: FaultyBroker, destination: FaultyBroker, clock: ManualClock
) -> None:
    await source.send(QUEUE, [Draft(f"{n:03}", b"x" * (1 << 20)) for n in range(80)])

    report = await move_now(source, destination, clock, batch=500)

    assert 80 == report.moved
    assert destination.calls["adopt"] >= 1 + 1 + 30 // 8


# What changes meanwhile.


async def while_copied(
    source: FaultyBroker,
    destination: FaultyBroker,
    clock: ManualClock,
    meanwhile: Callable[[], Awaitable[object]],
) -> Moved:
    """A move, and what somebody does between the copy and the deletion."""
    gate = source.gate("expel")
    moving = asyncio.create_task(move_now(source, destination, clock))
    await gate.reached.wait()
    await meanwhile()
    gate.open()
    for _ in range(20):
        await clock.advance(1)
    return await moving


async def test_a_change_made_at_the_source_as_it_was_copied_arrives_too(
    source: FaultyBroker, destination: FaultyBroker, clock: ManualClock
) -> None:
    await source.send(QUEUE, [Draft("a", b"1")])
    change = [Draft("a", b"2", 90, if_taken=bee.Update())]

    report = await while_copied(source, destination, clock, lambda: source.send(QUEUE, change))

    found = await destination.get(QUEUE, "a")
    assert found is not None
    assert (b"2", State.DELAYED) == (found.body, found.state)
    assert report.is_complete
    assert not report.doubled


async def test_one_that_was_archived_at_the_source_as_it_was_copied_is_archived_at_the_destination(
    source: FaultyBroker, destination: FaultyBroker, clock: ManualClock
) -> None:
    await source.send(QUEUE, [Draft("a", b"")])

    report = await while_copied(
        source, destination, clock, lambda: source.cancel(QUEUE, ["a"], to=bee.Archive())
    )

    assert ([], ["a"]) == (await waiting(destination), await ids(destination, State.ARCHIVED))
    assert report.is_complete


async def test_one_that_is_gone_from_the_source_as_it_was_copied_stays_at_the_destination(
    source: FaultyBroker, destination: FaultyBroker, clock: ManualClock
) -> None:
    """It may have been another run that deleted it there, having found the copy."""
    await source.send(QUEUE, [Draft("a", b"")])

    report = await while_copied(
        source, destination, clock, lambda: source.cancel(QUEUE, ["a"], to=bee.Delete())
    )

    assert ["a"] == await waiting(destination)
    assert 1 == report.gone


async def test_one_that_runs_at_the_source_since_it_was_copied_is_taken_back(
    source: FaultyBroker, destination: FaultyBroker, clock: ManualClock
) -> None:
    await source.send(QUEUE, [Draft("a", b"")])

    async def meddle() -> None:
        await source.resume(QUEUE)
        await lease_one(source, duration=3600)

    report = await while_copied(source, destination, clock, meddle)

    assert {"running": 1} == report.left
    assert [] == await waiting(destination)
    assert () == tuple(report.doubled)


async def test_one_that_runs_at_both_is_said_to(
    source: FaultyBroker, destination: FaultyBroker, clock: ManualClock
) -> None:
    await source.send(QUEUE, [Draft("a", b"")])

    async def meddle() -> None:
        await source.resume(QUEUE)
        await lease_one(source, duration=3600)
        await lease_one(destination)

    report = await while_copied(source, destination, clock, meddle)

    assert ["a"] == list(report.doubled)


async def test_two_moves_at_once_lose_nothing_and_copy_nothing_twice(
    source: FaultyBroker, destination: FaultyBroker, clock: ManualClock
) -> None:
    contents, before = await filled(source, clock)

    await asyncio.gather(*(move_now(source, destination, clock) for _ in range(2)))

    assert [] == differences(before, await look(destination, QUEUE), contents)
    assert 0 == (await source.stats(QUEUE)).live


async def test_what_is_sent_to_the_source_meanwhile_is_moved_too(
    source: FaultyBroker, destination: FaultyBroker, clock: ManualClock
) -> None:
    await source.send(QUEUE, [Draft("a", b"")])

    report = await while_copied(
        source, destination, clock, lambda: source.send(QUEUE, [Draft("b", b"")])
    )

    assert (1, 2, {}) == (report.found, report.moved, report.left)
    assert not (await source.stats(QUEUE)).paused


async def test_a_move_ends_though_somebody_sends_on_and_on(
    source: FaultyBroker, destination: FaultyBroker, clock: ManualClock
) -> None:
    sent = 0

    def send_another(event: Event) -> None:
        nonlocal sent
        if isinstance(event, Progress):
            sent += 1
            sending = source.inner.send(QUEUE, [Draft(f"late-{sent}", b"")])
            with pytest.raises(StopIteration):
                sending.send(None)

    await source.send(QUEUE, [Draft("a", b"")])
    moving = asyncio.create_task(move_now(source, destination, clock, tell=send_another))
    await clock.advance(60)

    assert {"new": 1} == (await moving).left


# What fails.


@pytest.mark.parametrize("verb", ["adopt", "expel", "settle", "scan", "stats", "reports", "pause"])
async def test_an_answer_that_was_lost_changes_nothing(
    source: FaultyBroker, destination: FaultyBroker, clock: ManualClock, verb: str
) -> None:
    contents, before = await filled(source, clock)
    for store in (source, destination):
        store.lose_answer(verb)

    async def by_now() -> Moved:
        return await move_now(source, destination, clock, patience=60, tell=heard.append)

    heard: list[Event] = []
    if verb == "stats":  # the first look is not repeated: nothing has been done yet
        with pytest.raises(bee.OutcomeUnknown):
            await by_now()
    moving = asyncio.create_task(by_now())
    await clock.advance(10)
    report = await moving

    assert [] == differences(before, await look(destination.inner, QUEUE), contents)
    assert ({}, 0, report.found) == (report.left, report.gone, report.moved)
    assert verb == "stats" or any(isinstance(event, Setback) for event in heard)


async def test_a_store_that_comes_back_in_time_is_waited_for(
    source: FaultyBroker, destination: FaultyBroker, clock: ManualClock
) -> None:
    contents, before = await filled(source, clock)
    gate = destination.gate("adopt")
    moving = asyncio.create_task(move_now(source, destination, clock, patience=60))
    await gate.reached.wait()
    destination.go_down(bee.BrokerUnavailable("gone"))
    gate.open()
    await clock.advance(50)
    assert not moving.done()
    destination.come_back()
    await clock.advance(5)

    assert (await moving).is_complete
    assert [] == differences(before, await look(destination, QUEUE), contents)


async def test_a_store_that_does_not_come_back_ends_the_move_and_the_source_stays_paused(
    source: FaultyBroker, destination: FaultyBroker, clock: ManualClock
) -> None:
    await source.send(QUEUE, [Draft("a", b"")])
    destination.fail("adopt", bee.BrokerUnavailable("gone"), times=1000)
    moving = asyncio.create_task(move_now(source, destination, clock, patience=60))
    await clock.advance(65)

    with pytest.raises(bee.BrokerUnavailable):
        await moving
    assert ["a"] == await waiting(source)
    assert (await source.stats(QUEUE)).paused


async def test_a_destination_that_is_not_there_is_found_out_before_anything_is_done(
    source: FaultyBroker, destination: FaultyBroker, clock: ManualClock
) -> None:
    await source.send(QUEUE, [Draft("a", b"")])
    destination.go_down(bee.SchemaMissing("run bee db apply"))

    with pytest.raises(bee.SchemaMissing):
        await move_now(source, destination, clock)
    assert not (await source.stats(QUEUE)).paused


async def test_a_destination_that_is_full_ends_the_move_and_nothing_is_lost(
    source: FaultyBroker, clock: ManualClock
) -> None:
    await source.send(QUEUE, [Draft(str(n), b"") for n in range(20)])
    small = MemoryBroker(clock=clock, max_length=10)

    with pytest.raises(bee.BrokerFull):
        await move_now(source, small, clock, batch=4)

    assert (8, 12) == ((await small.stats(QUEUE)).ready, (await source.stats(QUEUE)).ready)
    assert (await source.stats(QUEUE)).paused


async def test_what_the_destination_cannot_hold_stays_and_the_others_go(
    source: FaultyBroker, clock: ManualClock
) -> None:
    class Picky(FaultyBroker):
        async def adopt(
            self, queue: str, messages: Sequence[bee.Stored], **options: Any
        ) -> Sequence[bee.Stored]:
            if any(message.id == "7" for message in messages):
                raise bee.InvalidPayload("not to my taste")
            return await super().adopt(queue, messages, **options)

    await source.send(QUEUE, [Draft(str(n), b"") for n in range(20)])
    destination = Picky(MemoryBroker(clock=clock))

    report = await move_now(source, destination, clock)

    assert ({"refused": 1}, ["7"]) == (report.left, list(report.refused))
    assert "not to my taste" == report.refusal
    assert [str(n) for n in range(20) if n != 7] == await waiting(destination)


async def test_killed_at_any_moment_and_begun_again_it_loses_nothing_and_doubles_nothing() -> None:
    steps, survived = 0, False
    while not survived:
        clock = ManualClock()
        source, destination = MemoryBroker(clock=clock), MemoryBroker(clock=clock)
        contents, before = await filled(source, clock, 10)
        life = Life(steps)
        try:
            await move_now(Mortal(source, life), Mortal(destination, life), clock, batch=20)
            survived = True
        except Killed:
            pass

        report = await move_now(source, destination, clock, batch=20)

        assert [] == differences(before, await look(destination, QUEUE), contents), steps
        assert {} == report.left, steps
        assert 0 == (await source.stats(QUEUE)).live, steps
        steps += 1
    assert steps > 50


async def test_what_is_told_adds_up(
    source: FaultyBroker, destination: FaultyBroker, clock: ManualClock
) -> None:
    await filled(source, clock)
    heard: list[Event] = []

    report = await move_now(source, destination, clock, tell=heard.append)

    assert report == heard[-1]
    told = [event.moved for event in heard if isinstance(event, Progress)]
    assert sorted(told) == told
    assert report.moved == told[-1]
    assert not [event for event in heard if isinstance(event, Found | Setback | Waiting)]
