"""A broker that fails on cue: before it does its work, after it, or not until a test says so."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import partial
from typing import Any, Literal, TypeVar

from bee_core.broker import Store
from bee_core.disposition import Terminal
from bee_core.errors import OutcomeUnknown
from bee_core.message import Draft, Lease, Receipt, Report, Sent, Settlement
from bee_core.stored import Holder, Page, QueueStats, State, Stored

T = TypeVar("T")

When = Literal["before", "after"]


class Signal:
    """An event that may be set and awaited in any thread."""

    def __init__(self) -> None:
        self._future: concurrent.futures.Future[None] = concurrent.futures.Future()

    def set(self) -> None:
        """It has happened."""
        with suppress(concurrent.futures.InvalidStateError):
            self._future.set_result(None)

    def is_set(self) -> bool:
        """Whether it has happened."""
        return self._future.done()

    async def wait(self) -> None:
        """Return when it has happened."""
        await asyncio.shield(asyncio.wrap_future(self._future))


class Gate:
    """Holds up one call: `await gate.reached.wait()`, look around, then `gate.open()`."""

    def __init__(self) -> None:
        self.reached = Signal()
        self._opened = Signal()

    def open(self) -> None:
        """Let the call go on."""
        self._opened.set()

    async def pass_through(self) -> None:
        """Stop here until it is opened."""
        self.reached.set()
        await self._opened.wait()


class Script:
    """What is to go wrong, shared by a broker and its clones."""

    def __init__(self) -> None:
        self.faults: dict[str, deque[tuple[When, Exception]]] = {}
        self.gates: dict[tuple[str, When], deque[Gate]] = {}
        self.down: Exception | None = None
        self.calls: Counter[str] = Counter()


class FaultyBroker(Store):
    """Passes every verb on to another broker, unless told to fail it."""

    def __init__(self, inner: Store, script: Script | None = None) -> None:
        self.inner = inner
        self._script = Script() if script is None else script

    @property
    def calls(self) -> Counter[str]:
        """How often each verb was called, through any clone."""
        return self._script.calls

    def fail(self, verb: str, error: Exception, *, times: int = 1, when: When = "before") -> None:
        """Let the next `times` calls of this verb raise, before or after they were applied.

        To lose an answer: `fail("settle", OutcomeUnknown("lost"), when="after")`.
        """
        self._script.faults.setdefault(verb, deque()).extend([(when, error)] * times)

    def lose_answer(self, verb: str) -> None:
        """Let the next call of this verb be applied and its answer be lost."""
        self.fail(verb, OutcomeUnknown(f"the answer to {verb} was lost"), when="after")

    def gate(self, verb: str, *, when: When = "before") -> Gate:
        """Hold up the next call of this verb, before or after it is applied."""
        gate = Gate()
        self._script.gates.setdefault((verb, when), deque()).append(gate)
        return gate

    def go_down(self, error: Exception) -> None:
        """Let every verb raise this until `come_back`."""
        self._script.down = error

    def come_back(self) -> None:
        """Work again."""
        self._script.down = None

    def clone(self) -> FaultyBroker:
        return FaultyBroker(self.inner.clone(), self._script)

    async def aclose(self) -> None:
        await self.inner.aclose()

    def __repr__(self) -> str:
        return f"<FaultyBroker on {self.inner!r}>"

    async def _pass(self, verb: str, call: Callable[[], Awaitable[T]]) -> T:
        script = self._script
        script.calls[verb] += 1
        await self._stop_at(verb, "before")
        if script.down is not None:
            raise script.down
        faults = script.faults.get(verb)
        when, error = faults.popleft() if faults else (None, None)
        if when == "before" and error is not None:
            raise error
        answer = await call()
        await self._stop_at(verb, "after")
        if error is not None:
            raise error
        return answer

    async def _stop_at(self, verb: str, when: When) -> None:
        gates = self._script.gates.get((verb, when))
        if gates:
            await gates.popleft().pass_through()

    async def send(self, queue: str, drafts: Sequence[Draft]) -> Sequence[Sent]:
        return await self._pass("send", lambda: self.inner.send(queue, drafts))

    async def lease(self, queue: str, **options: Any) -> Sequence[Lease]:
        return await self._pass("lease", lambda: self.inner.lease(queue, **options))

    async def extend(
        self, queue: str, receipts: Sequence[Receipt], **options: Any
    ) -> AbstractSet[Receipt]:
        return await self._pass("extend", lambda: self.inner.extend(queue, receipts, **options))

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> AbstractSet[Receipt]:
        return await self._pass("settle", lambda: self.inner.settle(queue, settlements))

    async def announce(self, queue: str, holder: str, *, about: str, duration: float) -> None:
        call = partial(self.inner.announce, queue, holder, about=about, duration=duration)
        await self._pass("announce", call)

    async def cancel(
        self, queue: str, ids: Sequence[str], *, to: Terminal, running: bool = True
    ) -> AbstractSet[str]:
        return await self._pass(
            "cancel", lambda: self.inner.cancel(queue, ids, to=to, running=running)
        )

    async def wait(self, queue: str, *, timeout: float) -> None:
        return await self._pass("wait", lambda: self.inner.wait(queue, timeout=timeout))

    async def results(self, queue: str, ids: Sequence[str]) -> Mapping[str, Report]:
        return await self._pass("results", lambda: self.inner.results(queue, ids))

    async def reports(self, queue: str, id: str, **which: Any) -> Sequence[Report]:
        return await self._pass("reports", lambda: self.inner.reports(queue, id, **which))

    async def queues(self) -> Sequence[str]:
        return await self._pass("queues", self.inner.queues)

    async def stats(self, queue: str) -> QueueStats:
        return await self._pass("stats", lambda: self.inner.stats(queue))

    async def get(self, queue: str, id: str) -> Stored | None:
        return await self._pass("get", lambda: self.inner.get(queue, id))

    async def scan(
        self, queue: str, state: State, *, after: str | None = None, limit: int = 100
    ) -> Page:
        return await self._pass(
            "scan", lambda: self.inner.scan(queue, state, after=after, limit=limit)
        )

    async def restore(self, queue: str, ids: Sequence[str]) -> AbstractSet[str]:
        return await self._pass("restore", lambda: self.inner.restore(queue, ids))

    async def prune(self, queue: str, **which: Any) -> int:
        return await self._pass("prune", lambda: self.inner.prune(queue, **which))

    async def purge(self, queue: str) -> int:
        return await self._pass("purge", lambda: self.inner.purge(queue))

    async def drop(self, queue: str) -> None:
        return await self._pass("drop", lambda: self.inner.drop(queue))

    async def pause(self, queue: str) -> None:
        return await self._pass("pause", lambda: self.inner.pause(queue))

    async def resume(self, queue: str) -> None:
        return await self._pass("resume", lambda: self.inner.resume(queue))

    async def adopt(
        self, queue: str, messages: Sequence[Stored], **options: Any
    ) -> Sequence[Stored]:
        return await self._pass("adopt", lambda: self.inner.adopt(queue, messages, **options))

    async def expel(self, queue: str, messages: Sequence[Stored]) -> Sequence[Stored]:
        return await self._pass("expel", lambda: self.inner.expel(queue, messages))

    async def workers(self, queue: str) -> Sequence[Holder]:
        return await self._pass("workers", lambda: self.inner.workers(queue))
