"""The network between a process and the store: slow, lossy, treacherous, or as it should be."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from bee_core.errors import (
    BrokerClosed,
    BrokerFull,
    BrokerUnavailable,
    InvalidOption,
    OutcomeUnknown,
)
from bee_core.message import Lease, Receipt, Settlement
from bee_core.testing.faults import FaultyBroker
from bee_core.testing.simulation import Simulation
from tests.simulation.books import DEADLINE, Books, Member, WatchedStore

T = TypeVar("T")


@dataclass
class Weather:
    """How bad the network is: the share of calls that go wrong, and how slow the others are."""

    trouble: float = 0.0
    slowness: float = 0.0
    cut: bool = False
    """Nothing gets through at all."""
    crash_at: int = 0
    """With which call the process dies; 0: with none."""
    crash_after: bool = False
    """After it was done, instead of before."""
    calls: int = 0


class Link(FaultyBroker):
    """A process's own way to the store."""

    def __init__(
        self,
        store: WatchedStore,
        member: Member,
        weather: Weather,
        simulation: Simulation,
        books: Books,
    ) -> None:
        super().__init__(store)
        self._member = member
        self._weather = weather
        self._simulation = simulation
        self._books = books
        self._closed = False

    def clone(self) -> Link:
        store = self.inner
        assert isinstance(store, WatchedStore)
        return Link(store, self._member, self._weather, self._simulation, self._books)

    async def aclose(self) -> None:
        self._closed = True

    async def _pass(self, verb: str, call: Callable[[], Awaitable[T]]) -> T:
        if self._closed:
            raise BrokerClosed("closed")
        weather, chance = self._weather, self._simulation.chance
        weather.calls += 1
        number = weather.calls
        self._note(verb, "asked")
        if weather.crash_at == number and not weather.crash_after:
            await self._crash(verb, "before")
        fault = "cut" if weather.cut else _draw(chance, verb, weather.trouble)
        if fault:
            self._member.faults[verb] = self._simulation.now
            self._books.faults += 1
            self._note(verb, fault)
        if weather.slowness and chance.random() < 0.5:
            await asyncio.sleep(chance.random() * weather.slowness)
        await self._before(verb, fault, call, chance)
        answer = await call()
        if fault:  # its process may have stood still since it was drawn
            self._member.faults[verb] = self._simulation.now
        if weather.crash_at == number and weather.crash_after:
            await self._crash(verb, "after")
        if weather.slowness and chance.random() < 0.5:
            await asyncio.sleep(chance.random() * weather.slowness)
        match fault:
            case "lost":
                raise OutcomeUnknown(f"the answer to {verb} was lost")
            case "leak after":
                raise asyncio.CancelledError
            case "silence after":
                await asyncio.sleep(DEADLINE)
                raise OutcomeUnknown(f"no answer to {verb}")
            case _:
                return answer

    async def _before(
        self, verb: str, fault: str, call: Callable[[], Awaitable[Any]], chance: Random
    ) -> None:
        """What goes wrong before the store has heard of it."""
        match fault:
            case "cut" | "refused":
                if chance.random() < 0.3:
                    await asyncio.sleep(chance.random() * DEADLINE)
                raise BrokerUnavailable("nobody there")
            case "reset":
                raise ConnectionResetError("reset by peer")
            case "full":
                raise BrokerFull("no room")
            case "unknown":
                raise OutcomeUnknown("may have been done, and was not")
            case "odd":
                raise InvalidOption("the store does not like it")
            case "leak":
                raise asyncio.CancelledError
            case "silence":
                await asyncio.sleep(DEADLINE)
                raise OutcomeUnknown(f"no answer to {verb}")
            case "late":
                director = self._simulation.processes[0]
                director.start(_later(chance.random() * DEADLINE, call), "late")
                raise OutcomeUnknown(f"{verb} is still on its way")
            case _:
                pass  # it arrives

    async def _crash(self, verb: str, when: str) -> None:
        """The process dies here."""
        self._note(verb, f"dies {when}")
        self._member.process.kill()
        await asyncio.get_running_loop().create_future()

    def _note(self, verb: str, what: str) -> None:
        now = round(self._simulation.now, 6)
        self._books.trace.append((now, self._member.process.name, verb, what))

    # What the books have to know beside what the store has done.

    async def lease(self, queue: str, **options: Any) -> Sequence[Lease]:
        member = self._member
        free = member.concurrency - member.busy
        if not member.ended and options["limit"] > free:
            self._books.blame(
                f"{member.process.name} asks for {options['limit']}, with {free} free"
            )
        return await super().lease(queue, **options)

    async def extend(
        self, queue: str, receipts: Sequence[Receipt], **options: Any
    ) -> AbstractSet[Receipt]:
        lost = await super().extend(queue, receipts, **options)
        for receipt in lost:
            self._member.lost.setdefault(receipt.token, self._simulation.now)
        return lost

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> AbstractSet[Receipt]:
        for settlement in settlements:
            self._check(settlement)
        lost = await super().settle(queue, settlements)
        self._member.answered |= {settlement.receipt.token for settlement in settlements}
        return lost

    def _check(self, settlement: Settlement) -> None:
        """Whether the worker may ask for this at all."""
        member, books, token = self._member, self._books, settlement.receipt.token
        name, now = member.process.name, self._simulation.now
        if now >= member.killed:
            books.blame(f"{name} settles {token} although it was killed")
        if token in member.answered:
            books.blame(f"{name} settles {token} again, which was answered")
        if token in member.given_up:
            books.blame(f"{name} settles {token}, of which it has said that it is lost")
        run, lost = books.runs.get(token), member.lost.get(token)
        held_up = member.process.held_up_at
        told = bool(run and run.told and lost is not None and run.told[0] <= lost)  # why, counts
        if run is not None and lost is not None and held_up < lost < run.ended and not told:
            books.blame(f"{name} settles {token}, whose lease was lost before it ended")


async def _later(seconds: float, call: Callable[[], Awaitable[Any]]) -> None:
    await asyncio.sleep(seconds)
    await call()


_KINDS = ("refused", "reset", "full", "unknown", "lost", "leak", "leak after", "silence")
_MORE: dict[str, tuple[str, ...]] = {
    "lease": ("late", "silence after"),
    "extend": ("late", "silence after"),
    "settle": ("late", "silence after", "odd", "lost", "lost"),
}


def _draw(chance: Random, verb: str, trouble: float) -> str:
    """What goes wrong this time; empty: nothing."""
    if not trouble or chance.random() >= trouble:
        return ""
    kinds = ("refused", "lost") if verb == "reports" else _KINDS + _MORE.get(verb, ())
    return chance.choice(kinds)
