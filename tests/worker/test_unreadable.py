"""Messages that cannot be run: archived whole, or given back until somebody knows them."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import pytest

import bee_core as bee
from bee_core.events import AttemptSettled
from bee_core.testing import HiveUnderTest

from .support import Work, at_work, heard, live, nothing, outcomes, reasons, settled, under_test

LONG = 100_000.0
UNKNOWN = b'{"v":1,"job":{"type":"resize","path":"x"}}'


class Resize(bee.Job):
    """The kind that an older release does not know."""

    path: str


MALFORMED = {
    "empty": b"",
    "garbage": b"\x00\xff\xfe garbage",
    "not an object": b"[1,2,3]",
    "no job": b'{"v":1}',
    "job is null": b'{"v":1,"job":null}',
    "wrong field": b'{"v":1,"job":{"type":"work","number":"many"}}',
    "torn": b'{"v":1,"job":{"type":"wor',
    "nested": b'{"v":1,"job":{"type":"work","x":' + b"[" * 50_000 + b"}}",
    "not text": b'{"v":1,"job":{"type":"\xff"}}',
}


async def stored_bodies(bees: HiveUnderTest) -> dict[str, bytes]:
    page = await bees.broker.inner.scan("jobs", bee.State.ARCHIVED)
    return {stored.id: stored.body for stored in page.items}


async def test_bytes_that_are_no_job_are_archived_whole_and_their_neighbours_run() -> None:
    async with at_work(nothing, concurrency=2) as (bees, jobs):
        for number, (id, body) in enumerate(MALFORMED.items()):
            await jobs.send(Work(), id=f"good-{number}")
            await bees.broker.send("jobs", [bee.Draft(id, body)])
        await bees.drain()

        assert Counter(f"good-{number}" for number in range(len(MALFORMED))) == Counter(bees.runs)
        assert MALFORMED == await stored_bodies(bees)
        assert Counter({"malformed": len(MALFORMED)}) == await reasons(bees)


async def test_the_archive_says_what_was_wrong_with_them() -> None:
    async with at_work(nothing) as (bees, jobs):
        await bees.broker.send("jobs", [bee.Draft("a", MALFORMED["wrong field"])])
        await bees.drain()

        (archived,) = await bees.archived(jobs)
        assert archived.note is not None
        assert "number" in archived.note.detail
        assert archived.job is None
        assert bee.Counters(deliveries=1) == archived.counters


async def test_a_kind_that_is_not_known_is_given_back_with_patience_and_then_archived() -> None:
    async with at_work(nothing) as (bees, jobs):
        await bees.broker.send("jobs", [bee.Draft("a", UNKNOWN)])
        await jobs.send(Work(), id="good")
        await bees.advance(60)

        assert ["good"] == bees.runs
        assert 1 == await live(bees)

        await bees.advance(LONG)

        assert Counter(
            {
                ("a", "Unknown", "Reschedule"): 15,
                ("a", "Unknown", "Archive"): 1,
                ("good", "Succeeded", "Delete"): 1,
            }
        ) == settled(bees)
        assert {"a": UNKNOWN} == await stored_bodies(bees)
        assert Counter({"unknown": 1}) == await reasons(bees)
        delays = [
            event.disposition.delay
            for event in heard(bees, AttemptSettled)
            if isinstance(event.disposition, bee.Reschedule)
        ]
        assert 300 < sum(delays) < 1000


async def test_a_newer_envelope_is_treated_like_an_unknown_kind() -> None:
    async with at_work(nothing) as (bees, _):
        await bees.broker.send("jobs", [bee.Draft("a", b'{"v":2,"job":{"type":"work"}}')])
        await bees.clock.settle()

        assert Counter({("a", "Unknown", "Reschedule"): 1}) == settled(bees)


async def test_the_release_that_knows_the_kind_runs_what_the_older_one_gave_back() -> None:
    older = bee.Hive("memory://")
    older.queue("jobs", Work).handler(nothing)
    seen: list[tuple[str, int]] = []
    async with under_test(older) as bees:
        await bees.broker.send("jobs", [bee.Draft("a", UNKNOWN)])
        await bees.advance(20)
        await bees.stop()

        async def handle(job: Work | Resize, delivery: bee.Delivery[Work | Resize]) -> None:
            assert isinstance(job, Resize)
            seen.append((job.path, delivery.attempt))

        worker = bee.Worker(bees.broker.inner, "jobs", Work | Resize, handle, observers=())
        await bees.advance(100)
        await worker.run(max_jobs=1)

    assert [("x", 1)] == seen


async def test_what_was_archived_runs_after_it_was_repaired_and_restored() -> None:
    async with at_work(nothing) as (bees, _):
        await bees.broker.send("jobs", [bee.Draft("a", UNKNOWN), bee.Draft("b", b"junk")])
        await bees.advance(LONG)
        await bees.stop()

        assert set() == await bees.broker.restore("jobs", ["a", "b"])

        worker = bee.Worker(bees.broker.inner, "jobs", Work | Resize, nothing, observers=())
        await worker.run(until_empty=True)

        stats = await bees.broker.stats("jobs")
        assert (0, {"malformed": 1}) == (stats.live, stats.archived)


async def test_a_great_many_unreadable_messages_do_not_starve_the_others() -> None:
    async with at_work(nothing, concurrency=2) as (bees, jobs):
        await bees.broker.send("jobs", [bee.Draft(str(number), b"junk") for number in range(3000)])
        await jobs.send(Work(), id="good")
        await bees.drain()

        assert ["good"] == bees.runs
        assert Counter({"malformed": 3000}) == await reasons(bees)


async def test_unreadable_messages_do_not_count_for_max_jobs() -> None:
    broker = bee.connect("memory://")
    worker = bee.Worker(broker, "jobs", Work, nothing, observers=())
    await broker.send("jobs", [bee.Draft(str(number), b"junk") for number in range(10)])
    await worker.queue.send(Work(), id="good")
    await worker.run(max_jobs=1)

    assert 0 == (await broker.stats("jobs")).live
    await broker.aclose()


@pytest.mark.parametrize("error", [ValueError("no"), RecursionError(), bee.UnknownJob("new")])
async def test_a_codec_of_the_users_own_that_raises_does_not_end_the_worker(
    error: Exception,
) -> None:
    class Picky(bee.JsonCodec[Work]):
        def decode(self, body: bytes) -> Work:
            if b"bad" in body:
                raise error
            return super().decode(body)

    hive = bee.Hive("memory://")
    jobs = hive.queue("jobs", Work, codec=Picky(Work))
    jobs.handler(nothing)
    async with under_test(hive) as bees:
        await jobs.send(Work("bad"), id="bad")
        await jobs.send(Work("good"), id="good")
        await bees.clock.settle()

        assert ["good"] == bees.runs
        assert {"bad", "good"} == {event.id for event in heard(bees, AttemptSettled)}
        assert 2 == len(outcomes(bees))


async def test_a_codec_that_returns_another_class_does_not_end_the_worker() -> None:
    class Base:
        pass

    class Derived(Base):
        pass

    class Loose:
        def encode(self, job: Base) -> bytes:
            return type(job).__name__.encode()

        def decode(self, body: bytes) -> Base:
            return Derived() if body == b"Derived" else Base()

    hive = bee.Hive("memory://")
    jobs = hive.queue("jobs", Base, codec=Loose())
    seen: list[str] = []

    @jobs.on(Base)
    async def handle(job: Base) -> None:
        seen.append(type(job).__name__)

    with suppress(KeyError):
        async with under_test(hive) as bees:
            await jobs.send(Derived(), id="derived")
            await bees.clock.settle()
            await jobs.send(Base(), id="base")
            await bees.clock.settle()

    assert "Base" in seen
