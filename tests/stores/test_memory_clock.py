"""The memory broker and its clock: set back, it loses nothing; running on, it wakes one."""

from __future__ import annotations

import asyncio

from bee_core.clock import Alarm, SystemAlarm
from bee_core.message import Draft
from bee_memory import MemoryBroker


class SetClock:
    """A clock that stands where it is set."""

    def __init__(self) -> None:
        self.at = 1000.0

    def now(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError

    def alarm(self) -> Alarm:
        return SystemAlarm()


async def leased(broker: MemoryBroker) -> list[str]:
    leases = await broker.lease("jobs", limit=10, duration=30.0, holder="me")
    return [lease.receipt.id for lease in leases]


async def test_what_was_ready_before_the_clock_was_set_back_is_leased_when_it_is_due_again() -> (
    None
):
    clock = SetClock()
    broker = MemoryBroker(clock=clock)
    await broker.send("jobs", [Draft("a", b"{}")])

    clock.at -= 60
    assert [] == await leased(broker)
    clock.at += 60

    assert ["a"] == await leased(broker)


async def test_a_lease_that_had_run_out_before_the_clock_was_set_back_is_taken_over() -> None:
    clock = SetClock()
    broker = MemoryBroker(clock=clock)
    await broker.send("jobs", [Draft("a", b"{}")])
    await leased(broker)
    clock.at += 31
    await broker.send("jobs", [Draft("b", b"{}", priority=5)])
    await broker.lease("jobs", limit=1, duration=5.0, holder="me")  # b; it has passed a by

    clock.at -= 20
    assert [] == await leased(broker)
    clock.at += 60

    assert ["a", "b"] == sorted(await leased(broker))


async def test_a_message_that_is_ready_wakes_one_of_those_who_wait() -> None:
    broker = MemoryBroker()
    waiting = [asyncio.create_task(broker.wait("q", timeout=60)) for _ in range(5)]
    await asyncio.sleep(0)

    await broker.send("q", [Draft("a", b"")])
    await asyncio.wait(waiting, timeout=0.1)

    assert 1 == sum(task.done() for task in waiting)
    for task in waiting:
        task.cancel()
