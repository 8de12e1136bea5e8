"""Hives, queues and stores without await, on every backend."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

import bee_core as bee
from bee_core import sync
from bee_core.explain import NoWorker

from .jobs import Greet, declare


def test_a_job_is_sent_explained_run_and_its_result_read(url: str) -> None:
    hive, queue = declare(url)
    greetings = sync.of(queue)

    ticket = greetings.send(Greet("Ada"), id="one")
    assert bee.Ticket("one", bee.Sent.CREATED) == ticket
    assert bee.Ticket("one", bee.Sent.KEPT) == greetings.send(Greet("Ada"), id="one")
    assert NoWorker() == greetings.explain("one").why
    assert NoWorker() == sync.explain(greetings.broker, "greetings", "one").why
    with pytest.raises(bee.ResultTimeout):
        greetings.result("one", timeout=0.05)

    with sync.of(hive) as blocking, blocking.working():
        assert "hello Ada" == greetings.result("one", timeout=20, type=str)
        with pytest.raises(bee.JobFailed, match="nobody is there"):
            greetings.result(greetings.send(Greet("nobody")).id, timeout=20)
        with pytest.raises(bee.NoResult):
            greetings.result("never sent")


def test_many_jobs_are_sent_cancelled_and_gathered(url: str) -> None:
    hive, queue = declare(url)
    greetings = sync.of(queue)

    tickets = greetings.send_many(Greet(f"{number}") for number in range(1200))
    assert 1200 == len({ticket.id for ticket in tickets})
    assert 1200 == greetings.broker.stats("greetings").ready

    kept = {"7", "1100"}
    cancelled = greetings.cancel_where(lambda job: job.name not in kept, to=bee.Delete())
    assert 1198 == len(cancelled)
    assert {"no such job"} == greetings.cancel("no such job", tickets[7].id)

    group = greetings.group([Greet("a"), greetings.draft(Greet("b"), id="b")], then=Greet("all"))
    sync.of(hive).run(until_empty=True)
    assert "hello all" == greetings.result(group.id)
    assert "hello b" == greetings.result("b")
    assert "hello 1100" == greetings.result(tickets[1100].id)


def test_every_verb_of_a_store_can_be_called(url: str) -> None:
    with sync.connect(url) as store:
        assert [bee.Sent.CREATED] * 2 == store.send(
            "q", [bee.Draft("a", b"1"), bee.Draft("b", b"2")]
        )
        [lease] = store.lease("q", limit=1, duration=30, holder="me")
        assert set() == store.extend("q", [lease.receipt], duration=30)
        assert ["me"] == [holder.name for holder in store.workers("q")]
        store.announce("q", "me", about="{}", duration=5)
        note = bee.Note("failed", "no")
        archived = bee.Settlement(lease.receipt, bee.Archive(), note, keep=60)
        assert set() == store.settle("q", [archived])
        assert {"a": note} == {id: end.note for id, end in store.results("q", ["a"]).items()}
        assert [] == store.reports("q", "a")
        assert {"c"} == store.cancel("q", ["c"], to=bee.Delete())
        assert ["a"] == [one.id for one in store.scan("q", bee.State.ARCHIVED).items]
        assert set() == store.restore("q", ["a"])
        stored = store.get("q", "a")
        assert stored is not None
        assert bee.State.READY is stored.state
        assert ["q"] == store.queues()
        store.pause("q")
        assert store.stats("q").paused
        store.resume("q")
        store.wait("q", timeout=0.01)
        assert [] == store.adopt("r", [stored])
        moved = store.get("r", "a")
        assert moved is not None
        assert [] == store.expel("r", [moved])
        assert 0 == store.prune("q")
        assert 2 == store.purge("q")
        store.drop("q")
        assert [] == store.queues()
    with pytest.raises(bee.BrokerClosed):
        store.queues()
    store.close()


def test_a_queue_by_hand(url: str) -> None:
    with sync.connect(url) as store:
        greetings = sync.Queue(store, "greetings", Greet)
        ticket = greetings.send(Greet("Ada"))
        stored = store.get("greetings", ticket.id)

        assert stored is not None
        assert Greet("Ada") == greetings.decode(stored.id, stored.body)


def test_a_hive_by_hand_is_declared_and_worked_without_await(url: str) -> None:
    hive = sync.Hive(url)
    greetings = hive.queue("greetings", Greet, policy=bee.Policy(keep_result=60))

    @greetings.handler
    def greet(job: Greet, delivery: bee.Delivery[Greet]) -> str:
        return f"{threading.current_thread().name.split(':')[0]} {job.name}"

    with hive:
        ticket = greetings.send(Greet("Ada"))
        hive.run(until_empty=True)
        assert "bee Ada" == greetings.result(ticket.id)
        assert ["greetings"] == list(hive.queues)
        assert 0 == hive.broker.stats("greetings").live


def test_a_plain_handler_may_send_without_await(url: str) -> None:
    hive = bee.Hive(url)
    first = hive.queue("first", Greet)
    second = hive.queue("second", Greet, policy=bee.Policy(keep_result=60))

    @first.handler
    def pass_on(job: Greet) -> None:
        sync.of(second).send(job, id=job.name)

    @second.handler
    async def greet(job: Greet) -> str:
        return f"hello {job.name}"

    async def main() -> str:
        async with hive:
            await first.send(Greet("Ada"))
            await hive.run(until_empty=True)
            return await second.result("Ada", type=str)

    assert "hello Ada" == asyncio.run(main())


def test_the_hive_may_be_awaited_and_viewed_at_once(url: str) -> None:
    hive, queue = declare(url)

    async def main() -> str:
        async with hive, hive.working():
            ticket = await asyncio.to_thread(sync.of(queue).send, Greet("Ada"))
            return await queue.result(ticket.id, type=str)

    assert "hello Ada" == asyncio.run(main())
    assert bee.Sent.CREATED is sync.of(queue).send(Greet("Grace")).sent


async def test_under_test_a_view_sends_to_the_broker_of_the_test(
    bee_hive: object, bee_clock: object
) -> None:
    hive, queue = declare("redis://nobody.invalid")

    async with bee_hive(hive) as bees:  # type: ignore[operator]
        ticket = await asyncio.to_thread(sync.of(queue).send, Greet("Ada"), delay=60)
        await bees.advance(60)
        assert [ticket.id] == bees.runs
        assert "hello Ada" == await asyncio.to_thread(sync.of(queue).result, ticket.id)


def test_many_threads_share_one_store_in_memory_from_the_first_send_on() -> None:
    hive, queue = declare("memory://")
    start = threading.Barrier(16)

    def send() -> None:
        start.wait()
        for _ in range(20):
            sync.of(queue).send(Greet("Ada"))

    threads = [threading.Thread(target=send) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 320 == sync.of(hive).broker.stats("greetings").ready


def test_what_a_user_hands_in_runs_in_the_thread_that_calls(url: str) -> None:
    _, queue = declare(url)
    greetings = sync.of(queue)
    here = threading.current_thread()

    def jobs() -> Iterator[Greet]:
        assert here is threading.current_thread()
        greetings.send(Greet("while others are sent"))
        yield Greet("Ada")

    def picks(job: Greet) -> bool:
        assert here is threading.current_thread()
        return greetings.broker.stats("greetings").ready == 2

    greetings.send_many(jobs())
    assert 2 == len(greetings.cancel_where(picks))


@pytest.mark.parametrize("wrong", ["memory://", 5, None, Greet])
def test_of_takes_hives_queues_and_brokers_only(wrong: object) -> None:
    with pytest.raises(bee.InvalidOption, match=r"sync\.of takes a hive, a queue or a broker, not"):
        sync.of(wrong)  # type: ignore[call-overload]


def test_an_awaited_broker_is_refused_where_one_that_blocks_is_needed() -> None:
    with pytest.raises(bee.InvalidOption, match=r"one of sync\.connect or sync\.of"):
        sync.Queue(bee.connect("memory://"), "greetings", Greet)  # type: ignore[arg-type]
    with pytest.raises(bee.InvalidOption, match=r"sync\.of\(hive\)"):
        sync.Hive(bee.Hive())  # type: ignore[arg-type]


def test_views_say_what_they_are_views_of() -> None:
    hive, queue = declare("redis://:secret@nobody.invalid")

    assert "<sync view of queue 'greetings'>" == repr(sync.of(queue))
    assert "greetings on redis://" in repr(sync.of(hive))
    assert "secret" not in repr(sync.of(hive)) + repr(sync.connect("redis://:secret@x"))
