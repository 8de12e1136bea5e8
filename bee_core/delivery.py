"""What a handler gets beside its job, and how the functions of users are called."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
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
)

import anyio.to_process
from anyio import CapacityLimiter

from bee_core.child import run_as_child
from bee_core.clock import Clock
from bee_core.duration import Duration
from bee_core.errors import InvalidOption
from bee_core.message import Counters, Draft, IfTaken, Lease
from bee_core.strategy import Policy

if TYPE_CHECKING:
    from bee_core.queue import Queue

J = TypeVar("J")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class SendOptions(TypedDict, total=False):
    """The options of `Queue.send`."""

    id: str | None
    delay: Duration
    at: datetime | None
    priority: int
    policy: Policy | None
    headers: Mapping[str, str]
    if_taken: IfTaken


class Delivery(Generic[J]):
    """One delivery of one job."""

    __slots__ = ("_clock", "_lease", "_processes", "_queue", "deadline", "follow_ups")

    def __init__(
        self,
        lease: Lease,
        queue: Queue[J],
        clock: Clock,
        deadline: float,
        processes: CapacityLimiter,
    ) -> None:
        self._lease = lease
        self._queue = queue
        self._clock = clock
        self._processes = processes
        self.deadline = deadline
        """When bee will stop this run, by the worker's clock; math.inf without a timeout."""
        self.follow_ups: tuple[Draft, ...] = ()
        """What `then` has gathered so far."""

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
        draft = self._queue.draft(job, **options)
        self.follow_ups += (draft,)
        return draft.id

    async def run_in_process(self, function: Callable[[*Ts], T], *args: *Ts) -> T:
        """Run a plain function in another process, which is killed if this run is stopped.

        The function must be importable, its arguments and result picklable. What it prints is
        discarded, and children of its own are not killed with it.
        """
        return await run_in_process(self._processes, function, *args)


def attempt_number(counters: Counters) -> int:
    """Which run this is, not counting the ones that cost nothing."""
    return max(1, counters.deliveries - counters.releases - counters.unknowns)


async def run_in_process(limiter: CapacityLimiter, function: Callable[..., T], *args: Any) -> T:
    """Run in a worker process; being cancelled kills it."""
    return await anyio.to_process.run_sync(
        run_as_child, function, *args, cancellable=True, limiter=limiter
    )


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
