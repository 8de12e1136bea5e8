"""The lives of jobs that a sweep breaks off at every point, and how they must end all the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

import bee_core as bee
from bee_core.broker import Store
from bee_core.clock import SYSTEM_CLOCK, Clock
from bee_core.message import Counters
from bee_core.stored import State, Stored
from bee_core.testing.faults import FaultyBroker
from bee_core.ticks import message_id

T = TypeVar("T")

LEASE = 3.0
PAUSE = 1.2
"""Seconds that a job takes: its lease is renewed once."""
_STATES = (State.READY, State.DELAYED, State.LEASED, State.BLOCKED)


_ONCE = Counters(deliveries=1)


class Step(bee.Job):
    """What a handler does: ok, fail, hang, then, group."""

    what: str = "ok"
    seconds: float = 0.0


@dataclass(frozen=True)
class End:
    """Where a job ends if nobody dies: in the archive for a reason, or nowhere."""

    reason: str
    counters: Counters = _ONCE
    archived: bool = True


@dataclass(frozen=True)
class Scenario:
    """Some jobs under one policy, and how each of them ends."""

    name: str
    jobs: Mapping[str, Step]
    ends: Mapping[str, End]
    policy: bee.Policy
    key: str | None = None
    on_stall: str = "repeat"

    async def send(self, queue: bee.Queue[Step]) -> None:
        """In one call: all of them, or none."""
        drafts = [queue.draft(job, id=id, key=self.key) for id, job in self.jobs.items()]
        if drafts:
            await queue.send_many(drafts)


def _policy(**changes: Any) -> bee.Policy:
    usual: dict[str, Any] = {
        "timeout": 30.0,
        "on_success": bee.Archive(),
        "backoff": bee.Backoff(min=0.1, max=0.1, jitter=0),
    }
    return bee.Policy(**usual | changes)


def _scenarios() -> list[Scenario]:
    ok, slow = Step(), Step("ok", PAUSE)
    done = End("succeeded")
    gone = End("", archived=False)
    one = {"a": slow}
    found = [
        Scenario("success archived", one, {"a": done}, _policy()),
        Scenario("success deleted", one, {"a": gone}, _policy(on_success=bee.Delete())),
        Scenario(
            "stall archived", one, {"a": done}, _policy(on_stall=bee.Archive()), on_stall="archive"
        ),
        Scenario(
            "stall deleted", one, {"a": done}, _policy(on_stall=bee.Delete()), on_stall="delete"
        ),
        Scenario("two of a key", {"a": ok, "b": ok}, {"a": done, "b": done}, _policy(), key="k"),
        Scenario("then", {"a": Step("then")}, {"a": done, "next": done}, _policy()),
        Scenario(
            "group",
            {"a": Step("group")},
            {"a": done, "g": done, "g/1": done, "g/2": done},
            _policy(),
        ),
    ]
    for what, option, reason, counter in (
        ("fail", "on_error", "failed", "errors"),
        ("hang", "on_timeout", "timed_out", "timeouts"),
    ):
        once = Counters(deliveries=1, **{counter: 1})
        again = Counters(deliveries=2, **{counter: 2})
        job = {"a": Step(what)}
        for name, strategy, end in (
            ("archived", bee.Archive(), End(reason, once)),
            ("deleted", bee.Delete(), gone),
            ("repeated", bee.Repeat(1), End(reason, again)),
            ("repeated, deleted", bee.Repeat(1, otherwise=bee.Delete()), gone),
        ):
            policy = _policy(timeout=0.5, **{option: strategy})
            found.append(Scenario(f"{what} {name}", job, {"a": end}, policy))
    return found


SCENARIOS = {scenario.name: scenario for scenario in _scenarios()}


async def handle(job: Step, delivery: bee.Delivery[Step]) -> None:
    """The handler of all of them."""
    await asyncio.sleep(job.seconds)
    match job.what:
        case "fail":
            raise RuntimeError("it fails")
        case "hang":
            await asyncio.sleep(1000)
        case "then":
            delivery.then(Step(), id="next")
        case "group":
            delivery.group([Step(), Step()], then=Step(), id="g")
        case _:
            pass


class Crashing(FaultyBroker):
    """Passes every verb on; with one of the calls, its process dies."""

    def __init__(
        self,
        inner: Store,
        at: int,
        after: bool,
        die: Callable[[], Awaitable[None]],
        numbers: count[int] | None = None,
    ) -> None:
        super().__init__(inner)
        self._at = at
        self._after = after
        self._die = die
        self._numbers = count(1) if numbers is None else numbers

    def clone(self) -> Crashing:
        return Crashing(self.inner.clone(), self._at, self._after, self._die, self._numbers)

    async def _pass(self, verb: str, call: Callable[[], Awaitable[T]]) -> T:
        dies = next(self._numbers) == self._at
        if dies and not self._after:
            await self._die()
        answer = await call()
        if dies:
            await self._die()
        return answer


async def live(broker: Store, queue: str, scenario: Scenario, clock: Clock = SYSTEM_CLOCK) -> None:
    """The program that dies: it sends, and works until all is done."""
    await scenario.send(bee.Queue(broker, queue, Step, clock=clock))
    await _worker(broker, queue, scenario, clock).run(until_empty=True)


async def finish(
    broker: Store, queue: str, scenario: Scenario, *, sent: bool, clock: Clock = SYSTEM_CLOCK
) -> list[str]:
    """Do what is left, and say what is wrong then. What is not known to be sent is sent again."""
    if not sent:
        await scenario.send(bee.Queue(broker, queue, Step, clock=clock))
    stalls = {id: await _stalls(broker, queue, id) for id in scenario.ends}
    await _worker(broker, queue, scenario, clock, lease=60.0).run(until_empty=True)
    return await _faults(broker, queue, scenario, stalls)


async def _stalls(broker: Store, queue: str, id: str) -> int:
    """How often its worker has died, or was too slow: as a rule once, if it is held by nobody."""
    stored = await broker.get(queue, id)
    return 0 if stored is None else stored.counters.stalls + (stored.token is not None)


def _worker(
    broker: Store, queue: str, scenario: Scenario, clock: Clock, lease: float = LEASE
) -> bee.Worker[Step]:
    return bee.Worker(
        broker,
        queue,
        Step,
        handle,
        policy=scenario.policy,
        lease=lease,
        poll=0.5,
        observers=(),
        clock=clock,
    )


async def _faults(
    broker: Store, queue: str, scenario: Scenario, stalls: Mapping[str, int]
) -> list[str]:
    """Everything that did not end as the policy says, counted as the crash says."""
    wrong = [f"{stored.id} is left" async for stored in _live(broker, queue)]
    page = await broker.scan(queue, State.ARCHIVED, limit=100)
    archive: dict[str, list[Stored]] = {}
    for stored in page.items:
        archive.setdefault(stored.id, []).append(stored)
    for id, end in scenario.ends.items():
        found, expected = archive.pop(id, []), _expected(scenario, end, stalls[id])
        seen = [(stored.note.reason if stored.note else "", stored.counters) for stored in found]
        if seen != expected:
            wrong.append(f"{id}: expected {expected}, found {seen}")
    return wrong + [f"{id} was never sent" for id in archive]


def _expected(scenario: Scenario, end: End, stalls: int) -> list[tuple[str, Counters]]:
    counters = end.counters + Counters(deliveries=stalls, stalls=stalls)
    if not stalls:
        return [(end.reason, counters)] if end.archived else []
    match scenario.on_stall:
        case "repeat":
            return [(end.reason, counters)] if end.archived else []
        case "archive":
            return [("stalled", counters)]
        case _:
            return []


async def _live(broker: Store, queue: str) -> AsyncIterator[Stored]:
    for state in _STATES:
        for stored in (await broker.scan(queue, state, limit=100)).items:
            if not stored.id.startswith(message_id("")):
                yield stored
