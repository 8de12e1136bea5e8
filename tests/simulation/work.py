"""The jobs of a simulated run: what their handlers do, delivery by delivery, good and bad."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import bee_core as bee
from bee_core.disposition import Reschedule
from bee_core.testing.simulation import Simulation
from tests.simulation.books import Books, Run

LONG = 200.0
"""Longer than any timeout."""


class Work(bee.Job):
    """At its n-th delivery it makes its n-th move; when it has no more, it succeeds."""

    moves: tuple[str, ...] = ()


MOVES = (
    *("ok", "ok", "ok", "result", "then", "group", "progress", "fail", "fail", "permanent"),
    *(
        "retry",
        "snooze",
        "delete",
        "archive",
        "reschedule",
        "hang",
        "deaf",
        "hard",
        "slow",
        "block",
    ),
    *("then fail", "exit", "interrupt", "stop", "group error", "self cancel", "leak", "odd error"),
)


def draw_moves(chance: Random) -> tuple[str, ...]:
    """What a job is going to do, each move with a number that says how long or how often."""
    count = chance.choice((0, 1, 1, 2, 3, 5))
    return tuple(f"{chance.choice(MOVES)}:{_draw_time(chance):.3f}" for _ in range(count))


def _draw_time(chance: Random) -> float:
    return chance.choice((0.0, 0.0, chance.random(), 8 * chance.random(), 40 * chance.random()))


def draw_policy(chance: Random) -> bee.Policy:
    """Any policy, under which every job comes to an end."""

    def repeat(*times: int | None) -> bee.Repeat:
        return bee.Repeat(
            chance.choice(times), otherwise=chance.choice((bee.Archive(), bee.Delete()))
        )

    return bee.Policy(
        timeout=chance.choice((3, 10, 30)),
        on_success=chance.choice((bee.Delete(), bee.Archive())),
        on_error=chance.choice((bee.Delete(), bee.Archive(), repeat(0, 1, 3, None))),
        on_timeout=chance.choice((bee.Delete(), bee.Archive(), repeat(0, 1, 3, None))),
        on_stall=chance.choice((bee.Archive(), bee.Delete(), repeat(0, 1, 3), bee.Repeat(None))),
        backoff=bee.Backoff(min=0.5, factor=2, max=5),
        keep_result=chance.choice((None, 60)),
    )


class Odd(BaseException):
    """What nobody expects from a handler."""

    def __str__(self) -> str:
        raise ValueError("it cannot be shown")


class Hands:
    """Does what the jobs say, and notes in the run how it went."""

    def __init__(self, simulation: Simulation, books: Books) -> None:
        self._simulation = simulation
        self._books = books

    async def work(self, run: Run, job: Work, delivery: bee.Delivery[Work]) -> object:
        """One call of the handler. Whatever is raised here is meant to be."""
        name, _, number = run.move.partition(":")
        seconds = float(number or 0)
        match name:
            case "block":
                self._simulation.block(seconds)
            case "deaf":
                await self._deaf(run, seconds)
            case "hard":
                await self._hard(run)
            case "progress":
                delivery.progress(0.5)
                await asyncio.sleep(seconds)
            case "hang":
                await asyncio.sleep(LONG)
            case "slow":
                await self._slow(run, seconds)
            case _:
                await asyncio.sleep(seconds)
        if delivery.awaits:
            self._books.gathered[run.id] = (delivery.awaits, len(await delivery.results()))
        return self._answer(run, name, seconds, delivery)

    def _answer(self, run: Run, name: str, seconds: float, delivery: bee.Delivery[Work]) -> object:
        """How it ends, if nobody has told it to stop."""
        run.how = "succeeded"
        match name:
            case "result":
                return {"number": seconds}
            case "then" | "then fail":
                run.follows = delivery.then(Work(), id=f"{run.id}+{run.token}", delay=seconds)
                if name == "then fail":
                    run.how = "failed"
                    raise RuntimeError("it fails after all")
            case "group":
                children = [Work(), Work(("fail:0",)), Work(("snooze:1",))]
                delivery.group(children, then=Work(), id=f"{run.id}*{run.token}")
            case "snooze" | "reschedule":
                run.how = "released"
                if name == "snooze":
                    raise bee.Snooze(seconds)
                return Reschedule(seconds)
            case "delete" | "archive":
                run.how = name
                return bee.Delete() if name == "delete" else bee.Archive()
            case "retry":
                run.how = "retry"
                raise bee.Retry(after=seconds)
            case "permanent":
                run.how = "permanent"
                raise bee.PermanentError("no")
            case _:
                _fail(run, name)
        return None

    async def _deaf(self, run: Run, seconds: float) -> None:
        """Ignores every cancellation."""
        until = self._simulation.now + seconds
        while (left := until - self._simulation.now) > 0:
            try:
                await asyncio.sleep(left)
            except asyncio.CancelledError:
                run.told.append(self._simulation.now)

    async def _hard(self, run: Run) -> None:
        """Hears only the second cancellation."""
        try:
            await asyncio.sleep(LONG)
        except asyncio.CancelledError:
            run.told.append(self._simulation.now)
            await asyncio.sleep(LONG)

    async def _slow(self, run: Run, seconds: float) -> None:
        """Takes a moment to tidy up when it is told to stop."""
        try:
            await asyncio.sleep(LONG)
        except asyncio.CancelledError:
            run.told.append(self._simulation.now)
            await asyncio.sleep(min(seconds, 1.0))
            raise


def _fail(run: Run, name: str) -> None:
    errors: dict[str, BaseException] = {
        "fail": RuntimeError("it fails"),
        "exit": SystemExit(3),
        "interrupt": KeyboardInterrupt(),
        "stop": StopAsyncIteration(),
        "group error": BaseExceptionGroup("two", [ValueError("one"), Odd("two")]),
        "leak": asyncio.CancelledError(),
        "odd error": Odd("what"),
    }
    if name == "self cancel":
        run.how = "failed"
        task: asyncio.Task[Any] | None = asyncio.current_task()
        assert task is not None
        task.cancel()
        raise RuntimeError("it has cancelled itself")
    if name in errors:
        run.how = "failed"
        raise errors[name]
