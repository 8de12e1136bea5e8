"""What a handler gets beside its job, and how the functions of users are called."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from contextvars import ContextVar
from datetime import datetime
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    TypedDict,
    TypeVar,
    TypeVarTuple,
    Unpack,
    overload,
)

from typing_extensions import TypeForm

from bee_core.checks import LONGEST_PROGRESS
from bee_core.clock import Clock
from bee_core.duration import Duration
from bee_core.errors import InvalidOption
from bee_core.group import AWAITS_HEADER, Group, plan_group
from bee_core.message import NO_HEADERS, Counters, Draft, IfTaken, Lease, attempt_number
from bee_core.parts import is_in_a_loop
from bee_core.processes import Processes
from bee_core.results import Result, reader
from bee_core.spread import check_together, fresh_id
from bee_core.strategy import Policy
from bee_core.text import on_one_line
from bee_core.tracing import traced_drafts

if TYPE_CHECKING:
    from bee_core.queue import Queue

J = TypeVar("J")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_PAGE = 100
WORKER_LOOP: ContextVar[asyncio.AbstractEventLoop] = ContextVar("bee_worker_loop")
"""Where the worker lives whose handler runs in this thread."""


class SendOptions(TypedDict, total=False):
    """The options of `Queue.send`."""

    id: str | None
    delay: Duration
    at: datetime | None
    priority: int
    policy: Policy | None
    headers: Mapping[str, str]
    if_taken: IfTaken
    key: str | None


class Delivery(Generic[J]):
    """One delivery of one job."""

    __slots__ = (
        "_clock",
        "_lease",
        "_on_said",
        "_processes",
        "_queue",
        "deadline",
        "follow_ups",
        "said",
    )

    def __init__(
        self,
        lease: Lease,
        queue: Queue[J],
        clock: Clock,
        deadline: float,
        processes: Processes,
        on_said: Callable[[], None] = lambda: None,
    ) -> None:
        self._lease = lease
        self._queue = queue
        self._clock = clock
        self._processes = processes
        self._on_said = on_said
        self.deadline = deadline
        """When bee will stop this run, by the worker's clock; math.inf without a timeout."""
        self.follow_ups: tuple[Draft, ...] = ()
        """What `then` and `group` have gathered so far."""
        self.said: str | None = None
        """What was last said of its `progress`."""

    @property
    def id(self) -> str:
        """The job's id: the same at every repeat."""
        return self._lease.receipt.id

    @property
    def token(self) -> int:
        """Larger at every delivery: give it to other systems to fence off late writers."""
        return self._lease.receipt.token

    @property
    def queue(self) -> str:
        """The name of the queue."""
        return self._queue.name

    @property
    def counters(self) -> Counters:
        """What has happened to this job before, this delivery included."""
        return self._lease.counters

    @property
    def attempt(self) -> int:
        """1 on the first run. Runs that were interrupted or snoozed do not count."""
        return attempt_number(self._lease.counters)

    @property
    def redelivered(self) -> bool:
        """Whether it was delivered before, since it was sent, restored or replaced."""
        return self._lease.counters.deliveries > 1

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers the job was sent with."""
        return self._lease.headers

    @property
    def key(self) -> str | None:
        """The key it was sent with, which this run holds."""
        return self._lease.key

    @property
    def awaits(self) -> int:
        """How many jobs were to report to this one, if it gathers for a group; 0 otherwise."""
        return int(self._lease.headers.get(AWAITS_HEADER, "0"))

    @property
    def sent_at(self) -> float:
        """When it was sent: seconds since the epoch, by the store's clock."""
        return self._lease.sent_at

    @property
    def remaining(self) -> float:
        """Seconds until the deadline."""
        return self.deadline - self._clock.now()

    def then(self, job: J, **options: Unpack[SendOptions]) -> str:
        """Send a job to this queue if, and in the same step as, this one is settled as done.

        Takes the options of `Queue.send`. If the handler fails, or no longer holds its job, it
        is not sent. Returns the id it will have.
        """
        if options.get("id") is None:
            options["id"] = fresh_id(self._queue.broker, self.id)
        draft = self._queue.draft(job, **options)
        check_together(self._queue.broker, self.id, [draft])
        self.follow_ups += traced_drafts(self._queue.tracing, self.queue, [draft])
        return draft.id

    def group(
        self,
        jobs: Iterable[J | Draft],
        *,
        then: J,
        id: str | None = None,
        timeout: Duration | None = None,
        priority: int = 0,
        policy: Policy | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
        key: str | None = None,
    ) -> Group:
        """Send a group to this queue if, and in the same step as, this job is settled as done.

        Takes the arguments of `Queue.group`. What this job is part of does not wait for it.
        """
        options = {"priority": priority, "policy": policy, "headers": headers, "key": key}
        id = fresh_id(self._queue.broker, self.id) if id is None else id
        group, drafts = plan_group(
            self._queue.draft, jobs, then, id=id, timeout=timeout, options=options
        )
        check_together(self._queue.broker, self.id, drafts)
        self.follow_ups += traced_drafts(self._queue.tracing, self.queue, drafts)
        return group

    def progress(self, done: str | float) -> None:
        """Say how far it is: in up to 200 characters, or as a part of 1, shown as per cent.

        May be called from any thread and as often as you like: it only takes note. Operators see
        the last word about a second later, if the job has not ended by then.
        """
        if isinstance(done, str):
            self.said = on_one_line(done, LONGEST_PROGRESS) or "-"
        elif isinstance(done, int | float):
            self.said = (f"{done:.0%}" if 0 <= done <= 1 else f"{done:g}")[:LONGEST_PROGRESS]
        else:
            raise InvalidOption(f"progress is text, or a number from 0 to 1; not {done!r:.100}")
        self._on_said()

    @overload
    def reports(self) -> AsyncIterator[Result[Any]]: ...
    @overload
    def reports(self, *, type: TypeForm[T]) -> AsyncIterator[Result[T]]: ...
    async def reports(self, *, type: Any = Any) -> AsyncIterator[Result[Any]]:
        """How the jobs have ended that report to this one, page by page, in the order of their ids.

        What has not ended yet is not among them; a run that is repeated reads them again.
        """
        decoder, after = reader(type), ""
        while True:
            page = await self._queue.broker.reports(self.queue, self.id, after=after, limit=_PAGE)
            for report in page:
                yield Result(report, decoder)
            if len(page) < _PAGE:
                return
            after = page[-1].id

    @overload
    async def results(self) -> list[Result[Any]]: ...
    @overload
    async def results(self, *, type: TypeForm[T]) -> list[Result[T]]: ...
    async def results(self, *, type: Any = Any) -> list[Result[Any]]:
        """All `reports` at once."""
        return [result async for result in self.reports(type=type)]

    def from_thread(self, work: Coroutine[Any, Any, T]) -> T:
        """Await something from a plain function: `delivery.from_thread(delivery.results())`.

        It runs in the worker's event loop while the thread waits.
        """
        loop = WORKER_LOOP.get(None)
        if loop is None or is_in_a_loop():
            work.close()
            raise InvalidOption("from_thread is for plain functions: in an async one, await")
        try:
            future = asyncio.run_coroutine_threadsafe(work, loop)
        except RuntimeError:  # the loop is closed: this thread has outlived its worker
            work.close()
            raise
        return future.result()

    async def run_in_process(self, function: Callable[[*Ts], T], *args: *Ts) -> T:
        """Run a plain function in another process, which is killed if this run is stopped.

        The function must be importable, its arguments and result picklable. What it has started
        is killed with it, unless that made a session or process group of its own.
        """
        return await self._processes.run(function, *args)


class Call:
    """A user's function and how to call it: in the loop, in a thread, or in a process."""

    __slots__ = ("function", "kind", "takes_delivery")

    def __init__(self, function: Callable[..., Any], *, process: bool = False) -> None:
        self.function = function
        self.kind: Literal["async", "thread", "process"]
        if process:
            self.kind = "process"
        elif _is_async(function):
            self.kind = "async"
        else:
            self.kind = "thread"
        if process and _is_async(function):
            raise InvalidOption(f"{_name(function)} is async: process=True takes a plain function")
        self.takes_delivery = _positional(function) != 1
        if process and self.takes_delivery:
            raise InvalidOption(
                f"{_name(function)}: a function that runs in a process takes the job alone"
            )

    def __repr__(self) -> str:
        return f"<{self.kind} handler {_name(self.function)}>"


def _is_async(function: Callable[..., Any]) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.iscoroutinefunction(function):
        return True
    return inspect.iscoroutinefunction(type(function).__call__)  # an object that is called


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", repr(function))


def _positional(function: Callable[..., Any]) -> int:
    """How many positional arguments the function wants: the job, or the job and its delivery."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise InvalidOption(f"{function!r} cannot be a handler: {error}") from error
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidOption(f"{_name(function)} is a generator: calling it would run nothing")
    empty, keyword = inspect.Parameter.empty, inspect.Parameter.KEYWORD_ONLY
    if any(p.kind is keyword and p.default is empty for p in parameters):
        raise InvalidOption(f"{_name(function)} must take (job) or (job, delivery)")
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    wanted = [p for p in parameters if p.kind in kinds]
    required = [p for p in wanted if p.default is empty]
    most = 2 if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters) else len(wanted)
    if most < 1 or len(required) > 2:
        raise InvalidOption(f"{_name(function)} must take (job) or (job, delivery)")
    return min(most, 2)


Handler = Callable[[J, Delivery[J]], Awaitable[object] | object] | Callable[[J], object]
