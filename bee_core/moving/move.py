"""Moves queues from one store to another, with all they hold, while both are in use.

    async with connect(old) as source, connect(new) as destination:
        reports = await move(source, destination)

The source is paused, running jobs get some time to end, and then everything that waits or is
archived is copied and deleted, batch by batch (see `carrier.py`). What cannot be moved stays where
it was and is counted. A move that was interrupted is begun again, and goes on.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Sequence
from functools import partial

from bee_core.broker import Store
from bee_core.checks import check_queue, check_whole
from bee_core.clock import SYSTEM_CLOCK, Clock
from bee_core.duration import Duration, seconds
from bee_core.errors import InvalidName, InvalidOption
from bee_core.moving.carrier import SHOWN, Carrier
from bee_core.moving.events import Begun, Event, Found, Moved, Progress, Setback, Waiting, Why
from bee_core.moving.sides import Side, Where, at
from bee_core.stored import QueueStats, State, Stored
from bee_core.trouble import Trouble

BATCH = 500
WAIT = 30.0
PATIENCE = 60.0
"""Seconds for which a store may be in trouble before a move gives up."""
_PASSES = 10
"""As often a source is looked through to which somebody still sends."""
_LOOK = 0.25


def ignore(event: Event) -> None:
    """Nobody wants to know."""


async def survey(source: Store, queues: Sequence[str] | None = None) -> list[Found]:
    """What would be moved. Changes nothing. An unknown queue is an InvalidName."""
    with at("source"):
        known = await source.queues()
    found = []
    for name in dict.fromkeys(known if queues is None else queues):
        with at("source"):
            stats = await source.stats(check_queue(name))
        if name not in known and not stats.created:
            there = ", ".join(known) or "none"
            raise InvalidName(f"there is no queue {name!r} at the source; there are: {there}")
        found.append(_found(name, stats))
    return found


async def check(destination: Store) -> None:
    """Raise if the destination does not answer, or is not ready for use. Changes nothing."""
    with at("destination"):
        await destination.queues()


async def move(
    source: Store,
    destination: Store,
    queues: Sequence[str] | None = None,
    *,
    batch: int = BATCH,
    wait: Duration = WAIT,
    patience: Duration = PATIENCE,
    tell: Callable[[Event], None] = ignore,
    clock: Clock = SYSTEM_CLOCK,
    chance: Callable[[], float] = random.random,
) -> list[Moved]:
    """Move these queues, or all. Say what became of each.

    batch     messages to copy at once
    wait      seconds for running jobs to end; those that run longer stay, with their groups
    patience  seconds for which a store may be in trouble
    tell      is called with each event

    Nothing is lost, whatever fails and whenever it is interrupted: what was not moved is where it
    was, the queue under way stays paused, and to call this again goes on.
    """
    check_whole(batch, "batch", least=1)
    wait, patience = seconds(wait, "wait"), seconds(patience, "patience")
    plan = await survey(source, queues)
    await check(destination)
    if plan and await is_same_store(source, destination, plan[0].queue):
        raise InvalidOption("source and destination are the same store: there is nothing to move")
    reports = []
    for found in plan:
        told = partial(_trouble, found.queue, tell, clock, chance)
        one = Side("source", source, clock, told("source"), patience)
        other = Side("destination", destination, clock, told("destination"), patience)
        mover = _Mover(found, one, other, tell=tell, clock=clock, batch=batch)
        reports.append(await mover.run(wait))
        tell(reports[-1])
    return reports


async def is_same_store(source: Store, destination: Store, queue: str) -> bool:
    """Whether two brokers are of one store: what is said to the one can be heard at the other."""
    name = f"bee-move:{uuid.uuid4().hex}"
    with at("source"):
        await source.announce(queue, name, about="moving", duration=30.0)
    try:
        with at("destination"):
            return any(holder.name == name for holder in await destination.workers(queue))
    finally:
        with at("source"):
            await source.announce(queue, name, about="", duration=0.0)


class _Mover:
    """Moves one queue."""

    def __init__(
        self,
        found: Found,
        source: Side,
        destination: Side,
        *,
        tell: Callable[[Event], None],
        clock: Clock,
        batch: int,
    ) -> None:
        self._queue = found.queue
        self._was_paused = found.paused
        self._found = found.total
        self._source = source
        self._destination = destination
        self._tell = tell
        self._clock = clock
        self._carrier = Carrier(found.queue, source, destination, batch)

    async def run(self, wait: float) -> Moved:
        """From the pause to the report."""
        self._tell(Begun(queue=self._queue, found=self._found))
        await self._source.ask("pause", lambda: self._source.store.pause(self._queue))
        stats = await self._await_leases(wait)
        self._found = _found(self._queue, stats).total
        late = 0
        while late < _PASSES:
            before = self._carrier.tally.moved
            await self._pass(stats.token)
            stats = await self._stats(self._source)
            progress = self._carrier.tally.moved > before
            if _waiting(stats) > self._carrier.tally.staying:  # something comes, or changes
                late += 1
                await self._clock.sleep(0.0 if progress else _LOOK)
            elif not (progress and self._carrier.tally.tied):  # who was tied to what has gone now?
                break
        return await self._finish(stats)

    async def _await_leases(self, wait: float) -> QueueStats:
        """Who runs may end: a pause keeps nobody from settling."""
        until = self._clock.now() + wait
        told = False
        while True:
            asked = self._clock.now()
            stats = await self._stats(self._source)
            left = until - self._clock.now()
            if not stats.leased or left <= 0:
                return stats
            if not told:
                told = True
                self._tell(Waiting(queue=self._queue, leased=stats.leased, seconds=wait))
            took = self._clock.now() - asked  # the counts of a large queue may take a while
            await self._clock.sleep(min(max(_LOOK, 5 * took), left))

    async def _pass(self, token: int) -> None:
        """Everything that waits or is archived now.

        What is delayed comes first, because with time it becomes ready, and because those that
        await others mostly are: so they are there before these, and nobody reports in vain.
        """
        carrier = self._carrier
        await carrier.begin_pass(await self._held_back(), token)
        for state in (State.DELAYED, State.READY):
            await self._carry_waiting(state)
        await self._carry_archive()

    async def _carry_waiting(self, state: State) -> None:
        after: str | None = None
        while True:
            page = await self._carrier.page(state, after)
            if await self._carrier.take_over(page.items):
                continue  # others may stand elsewhere since: look again
            await self._carry(page.items)
            if page.after is None:
                return
            after = page.after

    async def _carry_archive(self) -> None:
        """The pages with the oldest first, so that the newest is the last to come.

        A scan begins with the newest. To begin at its other end without holding all of it, it is
        gone through once, and only the places where its pages begin are kept.
        """
        begin: str | None = None
        begins = []
        async for page in self._carrier.pages(State.ARCHIVED):
            begins.append((begin, len(page.items)))
            begin = page.after
        for begin, number in reversed(begins):
            if number:
                page = await self._carrier.page(State.ARCHIVED, begin, number)
                await self._carry(page.items)

    async def _carry(self, messages: Sequence[Stored]) -> None:
        if messages:
            await self._carrier.carry(messages)
            moved = self._carrier.tally.moved
            self._tell(Progress(queue=self._queue, moved=moved, found=self._found))

    async def _held_back(self) -> set[str]:
        """What must not go, because something that runs at the source may still report to it.

        Nor what that reports to in its turn: a group may be part of another one.
        """
        stay = set[str]()
        for state in (State.LEASED, State.BLOCKED):
            async for page in self._carrier.pages(state):
                stay |= {m.reports_to for m in page.items if m.reports_to is not None}
        grown = bool(stay)
        while grown:
            size = len(stay)
            for id in list(stay):
                found = await self._carrier.get(id)
                if found is not None and found.reports_to is not None:
                    stay.add(found.reports_to)
            grown = len(stay) > size
        return stay

    async def _finish(self, stats: QueueStats) -> Moved:
        """See what is left; if that is nothing, the source goes on for who still sends to it."""
        tally = self._carrier.tally
        there = await self._stats(self._destination)
        left: dict[Why, int] = {
            "running": stats.leased,
            "conflict": len(tally.conflicts),
            "refused": len(tally.refused),
            "group": tally.tied,
            "new": max(0, _waiting(stats) - tally.staying),
        }
        left = {why: number for why, number in left.items() if number}
        paused = self._was_paused or bool(left)
        if not paused:
            await self._source.ask("resume", lambda: self._source.store.resume(self._queue))
        return Moved(
            queue=self._queue,
            found=self._found,
            moved=tally.moved,
            already=tally.already,
            gone=tally.gone,
            left=left,
            conflicts=tally.conflicts[:SHOWN],
            refused=tally.refused[:SHOWN],
            refusal=tally.refusal,
            doubled=tally.doubled[:SHOWN],
            was_paused=self._was_paused,
            paused=paused,
            destination_paused=there.paused,
        )

    async def _stats(self, side: Side) -> QueueStats:
        stats, _ = await side.ask("stats", lambda: side.store.stats(self._queue))
        return stats


def _trouble(
    queue: str,
    tell: Callable[[Event], None],
    clock: Clock,
    chance: Callable[[], float],
    where: Where,
) -> Trouble:
    def begin(verb: str, error: Exception) -> None:
        tell(Setback(queue=queue, where=where, error=f"{verb}: {error}"))

    return Trouble(clock, chance, on_begin=begin, on_end=lambda verb: None)


def _found(queue: str, stats: QueueStats) -> Found:
    return Found(
        queue=queue,
        ready=stats.ready,
        delayed=stats.delayed,
        leased=stats.leased,
        blocked=stats.blocked,
        archived=stats.archived,
        paused=stats.paused,
    )


def _waiting(stats: QueueStats) -> int:
    """What should have been moved, and is still there."""
    return stats.ready + stats.delayed + sum(stats.archived.values())
