"""The broker that fails on cue."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

import bee_core as bee
from bee_core.testing import FaultyBroker, Gate, ManualClock
from bee_memory import MemoryBroker

from .support import Work, until


@pytest.fixture
def broker(bee_clock: ManualClock) -> FaultyBroker:
    return FaultyBroker(MemoryBroker(clock=bee_clock))


@pytest.fixture
def queue(broker: FaultyBroker) -> bee.Queue[Work]:
    return bee.Queue(broker, "jobs", Work)


async def test_it_passes_everything_on_and_counts_the_calls(
    broker: FaultyBroker, queue: bee.Queue[Work]
) -> None:
    await queue.send(Work(), id="a")
    (lease,) = await broker.lease("jobs", limit=5, duration=10, holder="me")
    assert set() == await broker.extend("jobs", [lease.receipt], duration=10)
    assert ["me"] == [holder.name for holder in await broker.workers("jobs")]
    settlement = bee.Settlement(lease.receipt, bee.Archive())
    assert set() == await broker.settle("jobs", [settlement])
    assert {lease.receipt} == await broker.settle("jobs", [settlement])
    assert set() == await broker.restore("jobs", ["a"])
    assert set() == await broker.cancel("jobs", ["a"], to=bee.Delete())
    assert 0 == await broker.prune("jobs")
    assert 0 == await broker.purge("jobs")
    await broker.pause("jobs")
    assert ["jobs"] == await broker.queues()
    await broker.resume("jobs")
    await broker.drop("jobs")
    assert None is await broker.get("jobs", "a")
    assert [] == (await broker.scan("jobs", bee.State.READY)).items
    assert 0 == (await broker.stats("jobs")).live

    assert {
        "send": 1, "lease": 1, "extend": 1, "workers": 1, "settle": 2, "restore": 1, "cancel": 1,
        "prune": 1, "purge": 1, "pause": 1, "queues": 1, "resume": 1, "drop": 1, "get": 1,
        "scan": 1, "stats": 1,
    } == broker.calls  # fmt: skip


async def test_a_call_that_fails_before_does_nothing_and_one_that_fails_after_does_all(
    broker: FaultyBroker, queue: bee.Queue[Work]
) -> None:
    broker.fail("send", bee.BrokerUnavailable("away"))
    broker.fail("send", bee.BrokerFull("full"), when="after")
    with pytest.raises(bee.BrokerUnavailable):
        await queue.send(Work(), id="a")
    assert 0 == (await broker.stats("jobs")).live
    with pytest.raises(bee.BrokerFull):
        await queue.send(Work(), id="a")
    assert 1 == (await broker.stats("jobs")).live
    assert bee.Sent.KEPT == (await queue.send(Work(), id="a")).sent


async def test_an_answer_is_lost_once(broker: FaultyBroker, queue: bee.Queue[Work]) -> None:
    broker.lose_answer("lease")
    await queue.send(Work(), id="a")
    with pytest.raises(bee.OutcomeUnknown):
        await broker.lease("jobs", limit=1, duration=10, holder="me")

    assert [] == await broker.lease("jobs", limit=1, duration=10, holder="me")
    assert 1 == (await broker.stats("jobs")).leased


async def test_a_broker_that_is_down_fails_every_verb_until_it_is_back(
    broker: FaultyBroker, queue: bee.Queue[Work]
) -> None:
    broker.go_down(bee.BrokerUnavailable("away"))
    for call in (queue.send(Work()), broker.stats("jobs"), broker.wait("jobs", timeout=1)):
        with pytest.raises(bee.BrokerUnavailable):
            await call
    broker.come_back()
    await queue.send(Work())

    assert 1 == (await broker.stats("jobs")).live


async def test_its_clones_fail_with_it(broker: FaultyBroker, queue: bee.Queue[Work]) -> None:
    clone = broker.clone()
    broker.fail("stats", OSError("no"))
    with pytest.raises(OSError, match="no"):
        await clone.stats("jobs")
    await queue.send(Work())

    assert 1 == (await clone.stats("jobs")).live
    assert 2 == broker.calls["stats"]


async def test_a_gate_holds_up_one_call_before_or_after_its_work(
    broker: FaultyBroker, queue: bee.Queue[Work]
) -> None:
    before, after = broker.gate("send"), broker.gate("send", when="after")
    sending = asyncio.create_task(queue.send(Work()))
    await before.reached.wait()
    assert 0 == (await broker.stats("jobs")).live
    before.open()
    await after.reached.wait()
    assert 1 == (await broker.stats("jobs")).live
    assert not sending.done()
    after.open()
    await sending
    await queue.send(Work())

    assert 2 == (await broker.stats("jobs")).live


async def test_gates_are_met_in_the_order_they_were_set_up(
    broker: FaultyBroker, queue: bee.Queue[Work]
) -> None:
    first, second = broker.gate("send"), broker.gate("send")
    tasks = [asyncio.create_task(queue.send(Work())) for _ in range(2)]
    await second.reached.wait()
    assert first.reached.is_set()
    second.open()
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    assert [False, True] == [task.done() for task in tasks]
    first.open()
    await asyncio.gather(*tasks)


async def test_a_call_cancelled_at_its_gate_is_over(
    broker: FaultyBroker, queue: bee.Queue[Work]
) -> None:
    gate = broker.gate("send")
    sending = asyncio.create_task(queue.send(Work()))
    await gate.reached.wait()
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)

    assert 0 == (await broker.stats("jobs")).live


async def test_a_gate_holds_up_a_call_in_another_thread_too(broker: FaultyBroker) -> None:
    gate = broker.gate("extend")
    passed = threading.Event()

    def heartbeat() -> None:
        async def beat() -> None:
            await asyncio.wait_for(broker.clone().extend("jobs", [], duration=10), 0.5)
            passed.set()

        asyncio.run(beat())

    thread = threading.Thread(target=heartbeat)
    thread.start()
    await until(gate.reached.is_set)
    gate.open()
    at_once = passed.wait(0.25)
    thread.join()

    assert at_once


async def test_a_gate_that_is_reached_in_another_thread_is_seen_to_be() -> None:
    gate = Gate()
    gate.open()

    def reach() -> None:
        time.sleep(0.02)
        asyncio.run(gate.pass_through())

    thread = threading.Thread(target=reach)
    thread.start()
    before = time.monotonic()
    await asyncio.wait({waiting := asyncio.create_task(gate.reached.wait())}, timeout=0.5)
    taken = time.monotonic() - before
    waiting.cancel()
    thread.join()

    assert taken < 0.25
