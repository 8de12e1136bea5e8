"""A queue as a hive declares it: where to send jobs, and who handles them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar, overload

from typing_extensions import TypeForm

from bee_core.auto import Auto
from bee_core.broker import Broker
from bee_core.capacity import Place
from bee_core.checks import check_throttle
from bee_core.clock import Clock
from bee_core.codec import Codec
from bee_core.delivery import Delivery
from bee_core.duration import Duration
from bee_core.handlers import Failure, Handlers
from bee_core.message import NO_HEADERS, Throttle
from bee_core.queue import Queue
from bee_core.schedule import Missed, Schedule
from bee_core.strategy import Policy
from bee_core.tracing import Tracing

J = TypeVar("J")
K = TypeVar("K")
R = TypeVar("R")


class Handled(Generic[J]):
    """What a queue of a hive is told: who handles its jobs, and which to send by the clock."""

    handlers: Handlers[J]

    @overload
    def handler(
        self, function: Callable[[J, Delivery[J]], R], /
    ) -> Callable[[J, Delivery[J]], R]: ...
    @overload
    def handler(self, function: Callable[[J], R], /) -> Callable[[J], R]: ...
    def handler(self, function: Callable[..., R], /) -> Callable[..., R]:
        """Decorate the function that handles every job of this queue.

        `async def` runs in the event loop, a plain function in a thread. It takes the job, or
        the job and its delivery.
        """
        self.handlers.handle_all(function)
        return function

    def on(self, kind: type[K], *, process: bool = False) -> On[K, J]:
        """Decorate the function that handles jobs of one class.

        `process=True` runs a plain function that takes the job alone in a process of its own,
        which is killed at the timeout, with all it has started.
        """
        return On(self.handlers, kind, process)

    @overload
    def on_failure(
        self, function: Callable[[Failure[J], Delivery[J]], R], /
    ) -> Callable[[Failure[J], Delivery[J]], R]: ...
    @overload
    def on_failure(self, function: Callable[[Failure[J]], R], /) -> Callable[[Failure[J]], R]: ...
    def on_failure(self, function: Callable[..., R], /) -> Callable[..., R]:
        """Decorate the function that hears of every job that has failed for good.

        The report is a job of its own, sent in the same step that ends the failed one.
        """
        self.handlers.handle_failures(function)
        return function

    def schedule(
        self,
        name: str,
        job: J,
        *,
        every: Duration | None = None,
        cron: str | None = None,
        tz: str = "UTC",
        missed: Missed = "once",
        late: Duration = 60.0,
        priority: int = 0,
        policy: Policy | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
        key: str | None = None,
    ) -> Schedule[J]:
        """Send a job again and again, as long as somebody works on this queue: see `Schedule`.

        Nothing happens until a worker starts. The job's id is the name and the instant.
        """
        schedule = Schedule(
            name,
            job,
            every=every,
            cron=cron,
            tz=tz,
            missed=missed,
            late=late,
            priority=priority,
            policy=policy,
            headers=headers,
            key=key,
        )
        self.handlers.schedule(schedule)
        return schedule

    @property
    def schedules(self) -> Mapping[str, Schedule[J]]:
        """Those that were declared here, by name."""
        found = (declared.schedule for declared in self.handlers.schedules.values())
        return {schedule.name: schedule for schedule in found}


class HiveQueue(Queue[J], Handled[J]):
    """A queue of a hive: send to it, and say who handles its jobs."""

    def __init__(
        self,
        broker: Callable[[], Broker],
        name: str,
        form: TypeForm[J],
        *,
        policy: Policy,
        codec: Codec[J] | None,
        max_bytes: int,
        concurrency: int | Auto,
        place: Place | None,
        throttle: Throttle,
        clock: Callable[[], Clock],
        tracing: Tracing | None = None,
    ) -> None:
        super().__init__(
            broker,
            name,
            form,
            policy=policy,
            codec=codec,
            max_bytes=max_bytes,
            clock=clock,
            tracing=tracing,
        )
        self.concurrency = concurrency
        self.place = place
        self.throttle = check_throttle(throttle)
        self.handlers: Handlers[J] = Handlers(self)


class On(Generic[K, J]):
    """The decorator that `HiveQueue.on` gives."""

    def __init__(self, handlers: Handlers[J], kind: type[K], process: bool) -> None:
        self._handlers = handlers
        self._kind = kind
        self._process = process

    @overload
    def __call__(
        self, function: Callable[[K, Delivery[J]], R], /
    ) -> Callable[[K, Delivery[J]], R]: ...
    @overload
    def __call__(self, function: Callable[[K], R], /) -> Callable[[K], R]: ...
    def __call__(self, function: Callable[..., R], /) -> Callable[..., R]:
        self._handlers.handle(self._kind, function, process=self._process)
        return function
