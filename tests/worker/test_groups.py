"""Groups: many jobs, and one that gathers what came of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import bee_core as bee
from bee_core.duration import LONGEST
from bee_core.events import ResultDropped
from bee_core.group import plan_group
from bee_core.testing import HiveUnderTest, ManualClock
from bee_memory import MemoryBroker

from .support import LEASE, STEADY, heard, under_test


class Square(bee.Job):
    number: int


class Sum(bee.Job):
    what: str = ""


Jobs = Square | Sum


class Maths:
    """A hive that squares numbers and adds the squares."""

    def __init__(
        self,
        policy: bee.Policy = bee.Policy(),
        *,
        square: Callable[..., object] | None = None,
        gather: Callable[..., object] | None = None,
    ) -> None:
        self.hive = bee.Hive("memory://")
        self.jobs = self.hive.queue("jobs", Jobs, policy=policy, concurrency=20)
        self.sums: list[object] = []
        self.seen: list[list[tuple[str, bool]]] = []
        self.awaited: list[int] = []
        self.squared: list[int] = []
        self.failures = 0
        self.jobs.on(Square)(square or self.square)
        self.jobs.on(Sum)(gather or self.sum)

    async def square(self, job: Square, delivery: bee.Delivery[Jobs]) -> int:
        self.squared.append(job.number)
        if job.number < 0:
            raise ValueError("no negative numbers")
        return job.number**2

    async def sum(self, job: Sum, delivery: bee.Delivery[Jobs]) -> object:
        results = await delivery.results(type=int)
        self.seen.append([(result.id, result.ok) for result in results])
        self.awaited.append(delivery.awaits)
        if self.failures:
            self.failures -= 1
            raise ConnectionError
        total = sum(result.value for result in results if result.ok)
        self.sums.append(total)
        return total


async def live(bees: HiveUnderTest) -> int:
    return (await bees.broker.inner.stats("jobs")).live


def squares(*numbers: int) -> list[Jobs]:
    return [Square(number) for number in numbers]


async def test_the_last_one_runs_when_all_others_have_ended() -> None:
    maths = Maths()
    async with under_test(maths.hive) as bees:
        group = await maths.jobs.group(squares(1, 2, 3), then=Sum(), id="g")
        await bees.drain()

        assert bee.Group("g", ("g/1", "g/2", "g/3")) == group
        assert [14] == maths.sums
        assert [3] == maths.awaited
        assert 0 == await live(bees)


async def test_results_come_in_the_order_in_which_the_jobs_were_given() -> None:
    maths = Maths()
    async with under_test(maths.hive) as bees:
        group = await maths.jobs.group([Square(n) for n in range(250)], then=Sum())
        await bees.drain()

        assert list(group.children) == [id for id, _ in maths.seen[0]]
        assert list(group.children) == sorted(group.children)
        assert [sum(n**2 for n in range(250))] == maths.sums


async def test_a_child_that_failed_is_reported_with_its_reason() -> None:
    found: list[bee.Result[Any]] = []

    async def gather(job: Sum, delivery: bee.Delivery[Jobs]) -> None:
        async for result in delivery.reports():
            found.append(result)

    maths = Maths(gather=gather)
    async with under_test(maths.hive) as bees:
        await maths.jobs.group(squares(3, -1), then=Sum(), id="g")
        await bees.drain()

    good, bad = found
    assert ("g/1", True, 9) == (good.id, good.ok, good.value)
    assert ("g/2", False, "failed") == (bad.id, bad.ok, bad.note.reason)
    assert "no negative numbers" in bad.note.detail
    with pytest.raises(bee.JobFailed, match="no negative numbers"):
        _ = bad.value
    assert "9" in repr(good)
    assert "failed" in repr(bad)


async def test_a_child_that_is_repeated_is_waited_for(bee_clock: ManualClock) -> None:
    maths = Maths(bee.Policy(on_error=bee.Repeat(2), backoff=STEADY))
    async with under_test(maths.hive, clock=bee_clock) as bees:
        await maths.jobs.group(squares(1, -1), then=Sum())
        await bees.advance(5)
        assert [] == maths.sums
        await bees.advance(5)

        assert [1] == maths.sums


async def test_a_child_that_is_cancelled_is_reported_too() -> None:
    maths = Maths()
    async with under_test(maths.hive) as bees:
        later = maths.jobs.draft(Square(5), id="later", delay=1000)
        await maths.jobs.group([Square(1), later], then=Sum(), id="g")
        await bees.drain()
        assert [] == maths.sums
        await maths.jobs.cancel("later")
        await bees.drain()

        assert [1] == maths.sums
        assert [[("g/1", True), ("later", False)]] == maths.seen


async def test_an_empty_group_gathers_at_once() -> None:
    maths = Maths()
    async with under_test(maths.hive) as bees:
        group = await maths.jobs.group([], then=Sum(), id="g", timeout=1000)
        await bees.drain()

        assert bee.Group("g", ()) == group
        assert [0] == maths.sums


async def test_a_group_runs_until_it_is_empty() -> None:
    maths = Maths()
    async with maths.hive:
        await maths.jobs.group(squares(*range(20)), then=Sum())
        await asyncio.wait_for(maths.hive.run(until_empty=True), 10)

    assert [sum(n**2 for n in range(20))] == maths.sums


async def test_after_the_timeout_it_gathers_what_is_there(bee_clock: ManualClock) -> None:
    maths = Maths()
    async with under_test(maths.hive, clock=bee_clock) as bees:
        late = maths.jobs.draft(Square(9), delay=1000)
        await maths.jobs.group([*squares(1, 2), late], then=Sum(), timeout=60)
        await bees.advance(59)
        assert [] == maths.sums
        await bees.advance(2)

        assert [5] == maths.sums
        assert (3, 2) == (maths.awaited[0], len(maths.seen[0]))
        await bees.advance(1000)
        assert [5] == maths.sums


async def test_it_gathers_once_although_it_is_done_before_its_timeout(
    bee_clock: ManualClock,
) -> None:
    maths = Maths()
    async with under_test(maths.hive, clock=bee_clock) as bees:
        await maths.jobs.group(squares(1, 2), then=Sum(), timeout=60)
        await bees.advance(120)

        assert [5] == maths.sums


async def test_without_a_timeout_it_waits_as_long_as_anything_can() -> None:
    broker = MemoryBroker()
    queue = bee.Queue(broker, "jobs", Jobs)
    await queue.group([Square(1)], then=Sum(), id="g")

    stored = await broker.get("jobs", "g")
    assert stored is not None
    assert (LONGEST, 1) == (stored.due_at - stored.sent_at, stored.awaits)


async def test_options_are_those_of_the_one_that_gathers() -> None:
    broker = MemoryBroker()
    queue = bee.Queue(broker, "jobs", Jobs)
    policy = bee.Policy(timeout=5)
    await queue.group(
        [Square(1)], then=Sum(), id="g", policy=policy, priority=3, headers={"a": "b"}, key="k"
    )

    stored = await broker.get("jobs", "g")
    assert stored is not None
    assert (3, "k", "b") == (stored.priority, stored.key, stored.headers["a"])
    assert 5.0 == queue.rules(Sum, stored.headers).timeout
    child = await broker.get("jobs", "g/1")
    assert child is not None
    assert (0, None, {}) == (child.priority, child.key, dict(child.headers))


# Sending it again.


async def test_a_group_sent_twice_is_one_group() -> None:
    maths = Maths()
    async with under_test(maths.hive) as bees:
        await bees.broker.inner.pause("jobs")
        for _ in range(2):
            await maths.jobs.group(squares(1, 2, 3), then=Sum(), id="g")
        await bees.broker.inner.resume("jobs")
        await bees.drain()

        assert [14] == maths.sums
        assert Counter([1, 2, 3]) == Counter(maths.squared)


async def test_a_group_that_was_sent_in_part_is_completed_by_sending_it_again() -> None:
    """More than one batch; the second is lost, the first has been worked off meanwhile."""
    maths = Maths()
    numbers = list(range(1200))
    async with under_test(maths.hive) as bees:
        gate = bees.broker.gate("send", when="after")
        sending = asyncio.create_task(maths.jobs.group(squares(*numbers), then=Sum(), id="g"))
        await gate.reached.wait()
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        gate.open()
        await bees.drain()
        assert [] == maths.sums
        assert 999 == len(maths.squared)

        await maths.jobs.group(squares(*numbers), then=Sum(), id="g")
        await bees.drain()

        assert [sum(n**2 for n in numbers)] == maths.sums
        assert Counter(numbers) == Counter(maths.squared)


async def test_an_answer_that_was_lost_on_the_way_is_asked_for_again() -> None:
    maths = Maths()
    async with under_test(maths.hive) as bees:
        bees.broker.lose_answer("send")
        await maths.jobs.group(squares(1, 2), then=Sum())
        await bees.drain()

        assert [5] == maths.sums


async def test_ids_that_are_given_twice_are_refused_before_anything_is_sent() -> None:
    broker = MemoryBroker()
    queue = bee.Queue(broker, "jobs", Jobs)
    one, two = queue.draft(Square(1), id="x"), queue.draft(Square(2), id="x")

    with pytest.raises(bee.InvalidName, match="x"):
        await queue.group([one, two], then=Sum())
    with pytest.raises(bee.InvalidName, match="x"):
        await queue.group([one], then=Sum(), id="x")
    with pytest.raises(bee.InvalidName):
        await queue.group([Square(1)], then=Sum(), id="x" * 200)
    with pytest.raises(bee.InvalidPayload):
        await queue.group([Square(1), "no job"], then=Sum())  # type: ignore[list-item]
    with pytest.raises(bee.InvalidOption, match="Keep"):
        await queue.group([queue.draft(Square(1), if_taken=bee.Update())], then=Sum())
    with pytest.raises(bee.InvalidOption, match="timeout"):
        await queue.group([Square(1)], then=Sum(), timeout=-1)
    assert 0 == (await broker.stats("jobs")).live


async def test_a_draft_of_one_group_is_not_sent_with_another() -> None:
    broker = MemoryBroker()
    queue = bee.Queue(broker, "jobs", Jobs)
    (_, draft) = [*_drafts(queue)]

    with pytest.raises(bee.InvalidOption, match="'first' already"):
        await queue.group([draft], then=Sum(), id="second")


def _drafts(queue: bee.Queue[Any]) -> list[bee.Draft]:
    _, drafts = plan_group(queue.draft, [Square(1)], Sum(), id="first", timeout=None, options={})
    return drafts


async def test_an_id_that_is_live_for_another_reason_is_not_waited_for_in_vain() -> None:
    broker = MemoryBroker()
    queue = bee.Queue(broker, "jobs", Jobs)
    await queue.send(Square(7), id="seven")
    await queue.send(Sum(), id="sum")

    with pytest.raises(bee.IdTaken) as caught:
        await queue.group([queue.draft(Square(7), id="seven")], then=Sum(), id="g")
    assert {"seven"} == caught.value.ids
    with pytest.raises(bee.IdTaken) as caught:
        await queue.group([Square(7)], then=Sum(), id="sum")
    assert {"sum"} == caught.value.ids


# Failing, crashing, being restored.


async def test_one_that_gathers_and_fails_finds_all_reports_again(bee_clock: ManualClock) -> None:
    maths = Maths(bee.Policy(on_error=bee.Repeat(3), backoff=STEADY))
    maths.failures = 2
    async with under_test(maths.hive, clock=bee_clock) as bees:
        await maths.jobs.group(squares(1, 2), then=Sum(), id="g")
        await bees.advance(10)

        assert [5] == maths.sums
        assert 3 * [[("g/1", True), ("g/2", True)]] == maths.seen


async def test_one_that_gathers_and_is_restored_finds_all_reports_again() -> None:
    maths = Maths()
    maths.failures = 1
    async with under_test(maths.hive) as bees:
        await maths.jobs.group(squares(1, 2), then=Sum(), id="g")
        await bees.drain()
        assert [] == maths.sums
        await bees.broker.inner.restore("jobs", ["g"])
        await bees.drain()

        assert [5] == maths.sums


async def test_a_child_that_is_restored_is_not_counted_twice(bee_clock: ManualClock) -> None:
    maths = Maths()
    async with under_test(maths.hive, clock=bee_clock) as bees:
        late = maths.jobs.draft(Square(3), delay=100)
        await maths.jobs.group([Square(-1), late], then=Sum(), id="g")
        await bees.advance(1)
        await bees.broker.inner.restore("jobs", ["g/1"])
        await bees.advance(1)
        assert [-1, -1] == maths.squared
        assert [] == maths.sums
        await bees.advance(100)

        assert [9] == maths.sums


async def test_the_first_end_of_a_child_is_the_one_that_counts(bee_clock: ManualClock) -> None:
    luck = False

    async def square(job: Square) -> int:
        if job.number == 7 and not luck:
            raise ValueError("no luck")
        return job.number**2

    maths = Maths(square=square)
    async with under_test(maths.hive, clock=bee_clock) as bees:
        late = maths.jobs.draft(Square(3), delay=100)
        await maths.jobs.group([Square(7), late], then=Sum(), id="g")
        await bees.advance(1)
        luck = True
        await bees.broker.inner.restore("jobs", ["g/1"])
        await bees.advance(110)

        assert [9] == maths.sums


async def test_a_group_that_is_cancelled_leaves_its_jobs_to_themselves() -> None:
    maths = Maths()
    async with under_test(maths.hive) as bees:
        await bees.broker.inner.pause("jobs")
        await maths.jobs.group(squares(1, 2), then=Sum(), id="g")
        await maths.jobs.cancel("g", to=bee.Delete())
        await bees.broker.inner.resume("jobs")
        await bees.drain()

        assert [1, 2] == sorted(maths.squared)
        assert [] == maths.sums
        assert 0 == await live(bees)


async def test_a_worker_that_has_lost_a_child_reports_nothing_of_it(
    bee_clock: ManualClock,
) -> None:
    """Its lease is taken over by another worker; what the first one says comes too late."""
    runs = 0

    async def square(job: Square) -> int:
        nonlocal runs
        runs += 1
        return runs

    maths = Maths(square=square)
    async with under_test(maths.hive, clock=bee_clock) as bees:
        gate = bees.broker.gate("settle")
        await maths.jobs.group(squares(5), then=Sum(), id="g")
        await gate.reached.wait()
        await bees.crash()
        await bees.start()
        await bees.advance(2 * LEASE)
        gate.open()
        await bees.advance(1)

        assert 2 == runs
        assert [2] == maths.sums


async def test_a_crash_between_the_last_child_and_the_gathering_loses_nothing(
    bee_clock: ManualClock,
) -> None:
    maths = Maths()
    async with under_test(maths.hive, clock=bee_clock) as bees:
        gate = bees.broker.gate("settle", when="after")
        await maths.jobs.group(squares(3), then=Sum())
        await gate.reached.wait()
        await bees.crash()
        gate.open()
        await bees.start()
        await bees.advance(2 * LEASE)

        assert [3] == maths.squared
        assert [9] == maths.sums


async def test_a_crash_while_it_gathers_is_a_stall_like_any_other(bee_clock: ManualClock) -> None:
    maths = Maths()
    async with under_test(maths.hive, clock=bee_clock) as bees:
        gate = bees.broker.gate("reports")
        await maths.jobs.group(squares(3, 4), then=Sum())
        await gate.reached.wait()
        await bees.crash()
        gate.open()
        await bees.start()
        await bees.advance(2 * LEASE)

        assert [25] == maths.sums


async def test_a_child_whose_result_cannot_be_kept_is_a_success_without_value() -> None:
    found: list[bee.Result[Any]] = []

    async def square(job: Square) -> object:
        return object()

    async def gather(job: Sum, delivery: bee.Delivery[Jobs]) -> None:
        found.extend(await delivery.results())

    maths = Maths(square=square, gather=gather)
    async with under_test(maths.hive) as bees:
        await maths.jobs.group(squares(3), then=Sum())
        await bees.drain()
        assert 1 == len(heard(bees, ResultDropped))

    (result,) = found
    assert result.ok
    assert "object" in result.note.detail
    with pytest.raises(bee.NoResult):
        _ = result.value


async def test_many_results_are_read_page_by_page() -> None:
    maths = Maths()
    async with under_test(maths.hive) as bees:
        await maths.jobs.group([Square(n) for n in range(200)], then=Sum())
        await bees.drain()

        assert 200 == len(maths.seen[0])
        assert 3 == bees.broker.calls["reports"]


# Other ways to make one, and to read one.


async def test_a_group_follows_from_a_job_or_not_at_all(bee_clock: ManualClock) -> None:

    async def start(job: Sum, delivery: bee.Delivery[Jobs]) -> None:
        if job.what == "start":
            group = delivery.group(squares(1, 2, 3), then=Sum(), id="stage")
            assert ("stage/1", "stage/2", "stage/3") == group.children
            if delivery.attempt == 1:
                raise ConnectionError
        else:
            await maths.sum(job, delivery)

    maths = Maths(bee.Policy(on_error=bee.Repeat(1), backoff=STEADY), gather=start)
    async with under_test(maths.hive, clock=bee_clock) as bees:
        await maths.jobs.send(Sum("start"))
        await bees.advance(1)
        assert [] == maths.squared
        await bees.advance(5)

        assert [14] == maths.sums


async def test_a_plain_handler_gathers_from_its_thread() -> None:

    def gather(job: Sum, delivery: bee.Delivery[Jobs]) -> None:
        results = delivery.from_thread(delivery.results(type=int))
        maths.sums.append(sum(result.value for result in results))

    maths = Maths(gather=gather)
    async with under_test(maths.hive) as bees:
        await maths.jobs.group(squares(1, 2, 3), then=Sum())
        await bees.drain()

        assert [14] == maths.sums


async def test_an_async_handler_that_waits_as_a_thread_would_is_told_so() -> None:
    errors: list[Exception] = []

    async def gather(job: Sum, delivery: bee.Delivery[Jobs]) -> None:
        try:
            delivery.from_thread(delivery.results())
        except bee.InvalidOption as error:
            errors.append(error)

    maths = Maths(gather=gather)
    async with under_test(maths.hive) as bees:
        await maths.jobs.group(squares(1), then=Sum())
        await bees.drain()

    assert ["from_thread is for plain functions: in an async one, await"] == [
        str(error) for error in errors
    ]


async def test_a_group_that_is_too_large_fails_where_it_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bee_core.group.MOST_AWAITED", 3)

    async def gather(job: Sum, delivery: bee.Delivery[Jobs]) -> None:
        delivery.group(squares(1, 2, 3, 4), then=Sum())

    maths = Maths(gather=gather)
    async with under_test(maths.hive) as bees:
        await maths.jobs.send(Sum())
        await bees.drain()

        (archived,) = await bees.archived(maths.jobs)
        assert archived.note is not None
        assert "a group has at most 3 jobs, not 4" in archived.note.detail


async def test_a_plain_handler_hears_what_goes_wrong_in_the_loop() -> None:
    errors: list[Exception] = []

    def gather(job: Sum, delivery: bee.Delivery[Jobs]) -> None:
        try:
            delivery.from_thread(delivery.results())
        except bee.BrokerUnavailable as error:
            errors.append(error)

    maths = Maths(gather=gather)
    async with under_test(maths.hive) as bees:
        bees.broker.fail("reports", bee.BrokerUnavailable("down"))
        await maths.jobs.group(squares(1), then=Sum())
        await bees.drain()

    assert 1 == len(errors)


async def test_a_job_of_no_group_has_no_reports() -> None:
    maths = Maths()
    async with under_test(maths.hive) as bees:
        await maths.jobs.send(Sum())
        await bees.drain()

        assert [0] == maths.sums
        assert [0] == maths.awaited


async def test_what_gathers_may_have_a_result_of_its_own(bee_clock: ManualClock) -> None:
    maths = Maths()
    async with under_test(maths.hive, clock=bee_clock) as bees:
        hour = bee.Policy(keep_result=3600)
        group = await maths.jobs.group(squares(1, 2), then=Sum(), policy=hour)
        await bees.drain()

        assert 5 == await maths.jobs.result(group.id, type=int)
