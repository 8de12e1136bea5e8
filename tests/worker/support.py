"""Short ways to say what the tests of the worker say often: one queue at work, what was heard."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import psutil  # type: ignore[import-untyped]

import bee_core as bee
from bee_core.events import AttemptSettled, WorkerStarted
from bee_core.testing import HiveUnderTest, running

if TYPE_CHECKING:  # child processes import this file, and are to start soon
    import pytest

E = TypeVar("E")

Jobs: TypeAlias = "bee.HiveQueue[Work]"

STEADY = bee.Backoff(min=2, factor=2, max=300, jitter=0)
"""2 s, 4 s, 8 s ... with nothing left to chance."""

LEASE = 30.0

DEFAULT = bee.Policy()


class Work(bee.Job):
    """The one job of most tests."""

    what: str = ""
    number: int = 0


def hive_for(
    handler: Callable[..., object],
    *,
    policy: bee.Policy = DEFAULT,
    concurrency: int = 10,
    on_failure: Callable[..., object] | None = None,
) -> tuple[bee.Hive, Jobs]:
    """A hive with one queue, `jobs`, and its handler."""
    hive = bee.Hive("memory://")
    jobs = hive.queue("jobs", Work, policy=policy, concurrency=concurrency)
    jobs.handlers.handle_all(handler)
    if on_failure is not None:
        jobs.on_failure(on_failure)
    return hive, jobs


@asynccontextmanager
async def at_work(
    handler: Callable[..., object],
    *,
    policy: bee.Policy = DEFAULT,
    concurrency: int = 10,
    on_failure: Callable[..., object] | None = None,
    **options: Any,
) -> AsyncIterator[tuple[HiveUnderTest, Jobs]]:
    """One queue whose worker is up and waiting. Options are those of `Worker`, and `clock`."""
    hive, jobs = hive_for(handler, policy=policy, concurrency=concurrency, on_failure=on_failure)
    async with under_test(hive, **options) as bees:
        yield bees, jobs


@asynccontextmanager
async def under_test(hive: bee.Hive, **options: Any) -> AsyncIterator[HiveUnderTest]:
    """A hive whose workers are up and waiting."""
    async with running(hive, start=False, **options) as bees:
        await begin(bees)
        yield bees


async def begin(bees: HiveUnderTest) -> None:
    """Start workers, and return when each of them waits for jobs."""
    workers = sum(queue.handlers.any for queue in bees.hive.queues.values())
    expected = len(heard(bees, WorkerStarted)) + workers
    await bees.start()
    await until(lambda: len(heard(bees, WorkerStarted)) == expected)
    await bees.clock.settle()


async def until(condition: Callable[[], object], patience: float = 5.0) -> None:
    """Give way in real time until the condition holds: for what threads and processes do."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        await asyncio.sleep(0.001)


def new_store(request: pytest.FixtureRequest, server: str) -> str:
    """The URL of an empty store, on one of the servers that the tests share."""
    match server:
        case "valkey":
            return f"{request.getfixturevalue('valkey').url}?prefix={uuid.uuid4().hex}"
        case "pg":
            return f"{request.getfixturevalue('pg').database()}&migrate=1"
        case _:
            return f"memory://{uuid.uuid4().hex}"


async def nothing(job: object) -> None:
    """A handler that succeeds."""


def heard(bees: HiveUnderTest, kind: type[E]) -> list[E]:
    """The events of one kind, in order."""
    return [event for event in bees.events if isinstance(event, kind)]


def counted(bees: HiveUnderTest) -> Counter[str]:
    """How often each kind of event was heard.

    But for the start and end of workers, and what a machine that others keep busy does to a loop.
    """
    left_out = ("WorkerStarted", "WorkerStopped", "LoopBlocked")
    names = (type(event).__name__ for event in bees.events)
    return Counter(name for name in names if name not in left_out)


def settled(bees: HiveUnderTest) -> Counter[tuple[str, str, str]]:
    """How the attempts were settled: id, outcome, disposition."""
    return Counter(
        (event.id, type(event.outcome).__name__, type(event.disposition).__name__)
        for event in heard(bees, AttemptSettled)
    )


def outcomes(bees: HiveUnderTest) -> list[str]:
    """The outcomes that were settled, in order."""
    return [type(event.outcome).__name__ for event in heard(bees, AttemptSettled)]


async def live(bees: HiveUnderTest) -> int:
    """How many messages are not archived."""
    return (await bees.broker.inner.stats("jobs")).live


async def reasons(bees: HiveUnderTest) -> Counter[str]:
    """How many messages are archived, by reason."""
    return Counter((await bees.broker.inner.stats("jobs")).archived)


def alive(pid: int) -> bool:
    """Whether a process runs: one that is dead and not yet waited for does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def children() -> set[int]:
    """The processes that this one has started and that run."""
    return {child.pid for child in psutil.Process().children() if alive(child.pid)}


async def pid_in(path: Path, patience: float = 10.0) -> int:
    """What a child process has left in a file."""
    await until(path.exists, patience)
    return int(path.read_text())
