"""One lease, one run of a handler, one outcome.

An attempt calls the handler and turns whatever it does into an Outcome: no exception gets
out. It does not decide, settle, or watch the time; the worker does.
"""

from __future__ import annotations

import asyncio
import contextvars
import enum
import inspect
import math
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeAlias, assert_never

import msgspec

from bee_core.delivery import WORKER_LOOP, Call, Delivery
from bee_core.disposition import Archive, Delete, Reschedule
from bee_core.duration import seconds
from bee_core.errors import PermanentError
from bee_core.forks import end_if_forked, this_process
from bee_core.logs import HANDLED
from bee_core.message import Lease, Note
from bee_core.outcome import (
    Failed,
    Interrupted,
    Malformed,
    Outcome,
    Retry,
    Ruled,
    Snooze,
    Stalled,
    Succeeded,
    TimedOut,
    Unknown,
)
from bee_core.parent import ChildDied
from bee_core.processes import Processes
from bee_core.stacks import stack_of_task
from bee_core.strategy import Repeat, Rules
from bee_core.text import storable
from bee_core.threads import Raised, Threads

_CHAIN, _MEMBERS, _DEPTH = 5, 5, 3
"""How much of an error is looked at: causes, members of a group, groups within groups."""


class LostLease(enum.Enum):
    """Not an outcome: the attempt must end because its message is no longer its own."""

    CERTAIN = "certain"
    """The broker said so."""
    PRESUMED = "presumed"
    """The lease could not be renewed in time, so somebody else may have the message."""


Ending: TypeAlias = TimedOut | Interrupted | LostLease


class Means(NamedTuple):
    """What handlers of one worker are run with."""

    queue: str
    threads: Threads
    processes: Processes
    abandoned: Callable[[Attempt, asyncio.Future[object]], None]
    """Hears of a thread that runs on after its cancellation."""


class Attempt(msgspec.Struct, eq=False, gc=False):
    """A lease that is being run, or has been run and is not yet settled.

    Made by the hundred, so the collector does not look into it. What leads back to it, its task,
    is let go of as soon as that has ended.
    """

    lease: Lease
    rules: Rules
    tag: str
    started_at: float
    """When its handler was started, or when it was leased if it was not."""
    leased_until: float
    """When the lease runs out for certain, by the worker's clock; moved on by heartbeats."""
    job: Any = None
    call: Call | None = None
    deadline: float = math.inf
    """When it will be stopped, by the same clock."""
    told: str | None = None
    """What the broker knows of its progress."""
    remark: str | None = None
    """What was noticed about it and the broker does not know yet."""
    delivery: Delivery[Any] | None = None
    """If its handler asks for one."""
    task: asyncio.Task[Any] | None = None
    """While it runs and counts."""
    running: bool = False
    """Whether the handler still runs and still counts."""
    ending: Ending | None = None
    """Why it was told to stop."""
    cancels: int = 0
    patience: float = 0.0
    """How long to wait after each time it was told."""
    check_at: float = math.inf
    """When the worker must next look after it."""

    def __repr__(self) -> str:
        return f"<Attempt {self.lease.receipt}>"

    async def run(
        self, means: Means, ended: Callable[[Attempt, Outcome], None] = lambda *_: None
    ) -> Outcome:
        """Call the handler; tell how it ended, and return that."""
        call, owner = self.call, this_process()
        assert call is not None
        HANDLED.set((means.queue, self.lease))  # in this task's own context
        try:
            if call.kind == "async":
                if call.takes_delivery:
                    result = await call.function(self.job, self.delivery)
                else:
                    result = await call.function(self.job)
            elif call.kind == "thread":
                result = await self._in_thread(call, means)
            else:
                result = await means.processes.run(call.function, self.job)
            end_if_forked(owner)
            outcome = outcome_of_result(result)
        except BaseException as error:
            end_if_forked(owner, error)
            outcome = outcome_of_error(error)
        ended(self, outcome)
        return outcome

    @property
    def where(self) -> str:
        """Where its handler waits, if it is an async one."""
        if self.task is None or self.call is None or self.call.kind != "async":
            return ""
        return stack_of_task(self.task)

    @property
    def news(self) -> str | None:
        """What its handler has said of its progress and the broker does not know yet."""
        said = None if self.delivery is None else self.delivery.said
        return None if said == self.told else said

    def counted(self, outcome: Outcome) -> Outcome | None:
        """What counts: why it was told to stop outranks how it did. None: its lease is lost."""
        ending = self.ending
        if ending is None:
            return outcome
        return None if isinstance(ending, LostLease) else ending

    def _arguments(self, call: Call) -> tuple[Any, ...]:
        return (self.job, self.delivery) if call.takes_delivery else (self.job,)

    async def _in_thread(self, call: Call, means: Means) -> object:
        context = contextvars.copy_context()
        context.run(WORKER_LOOP.set, asyncio.get_running_loop())
        work = means.threads.submit(partial(context.run, call.function, *self._arguments(call)))
        try:
            result = await asyncio.shield(work)
        except asyncio.CancelledError:
            if not work.done():
                means.abandoned(self, work)
            raise
        except Raised as raised:
            raise raised.error from None
        # An async function behind a plain decorator looks like a plain one.
        return await result if inspect.iscoroutine(result) else result


_SUCCEEDED = Succeeded()


def outcome_of_result(result: object) -> Outcome:
    """What it means that a handler returned this."""
    if result is None:
        return _SUCCEEDED
    if isinstance(result, Delete | Archive | Reschedule):
        return Ruled(result)
    if isinstance(result, Retry | Snooze):
        return outcome_of_error(result)
    if inspect.iscoroutine(result):
        result.close()
        return Failed(TypeError("the handler returned a coroutine that it did not await"))
    if isinstance(result, Repeat) or result is Retry or result is Snooze:
        return Failed(TypeError(f"{result!r} is no answer: raise Retry(...) or Snooze(...)"))
    return Succeeded(result)


def outcome_of_error(error: BaseException) -> Outcome:
    """What it means that a handler raised this, whatever the error's own code does."""
    try:
        match error:
            case Snooze(delay=delay):
                return Ruled(Reschedule(delay))
            case Retry(after=after):
                wait = None if after is None else seconds(after, "Retry after")
                return Failed(error, retry=True, after=wait)
            case ChildDied():
                return Stalled(str(error))
            case PermanentError():
                return Failed(error, permanent=True)
            case _:
                return Failed(error, permanent=getattr(error, "permanent", False) is True)
    except Exception as worse:
        return Failed(worse)


def note_of(outcome: Outcome) -> Note:
    """What is kept with the message about how its lease ended."""
    match outcome:
        case Succeeded():
            return Note("succeeded")
        case Failed(error=error):
            return Note("failed", describe(error))
        case TimedOut(after=after, where=where):
            at = f", at\n{where}" if where else ""
            return Note("timed_out", storable(f"stopped after {after:g} s{at}"))
        case Stalled(detail=detail):
            return Note("stalled", detail or "its lease ran out")
        case Interrupted():
            return Note("interrupted", "its worker was shut down")
        case Malformed(problem=problem):
            return Note("malformed", storable(problem))
        case Unknown(problem=problem):
            return Note("unknown", storable(problem))
        case Ruled(disposition=disposition):
            return Note("ruled", repr(disposition))
        case _:
            assert_never(outcome)


def describe(error: BaseException) -> str:
    """The error as text of bounded size, whatever its own methods do."""
    try:
        return storable("".join(_lines(error, depth=0)))
    except BaseException as worse:  # its __str__ raised, or worse
        return f"{type(error).__name__} (and its text cannot be had: {type(worse).__name__})"


def _lines(error: BaseException, depth: int) -> Iterator[str]:
    """The error with what led to it, oldest first, and some members if it is a group."""
    chain = [error]
    while len(chain) < _CHAIN:
        last = chain[-1]
        before = last.__cause__ or (None if last.__suppress_context__ else last.__context__)
        if before is None or before in chain:
            break
        chain.append(before)
    for one in reversed(chain):
        if not isinstance(one, BaseExceptionGroup):
            yield from traceback.format_exception(type(one), one, one.__traceback__, -20, False)
            continue
        yield f"{type(one).__name__}: {one}\n"
        for member in one.exceptions[:_MEMBERS] if depth < _DEPTH else ():
            yield from _lines(member, depth + 1)
