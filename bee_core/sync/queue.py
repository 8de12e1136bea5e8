"""A queue without await: jobs in, tickets and results out."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Any, Generic, Self, TypeVar, overload

from typing_extensions import TypeForm

from bee_core import queue as awaited
from bee_core.clock import SYSTEM_CLOCK, Clock
from bee_core.codec import Codec
from bee_core.disposition import Archive, Terminal
from bee_core.duration import Duration
from bee_core.errors import InvalidOption
from bee_core.explain import Explanation
from bee_core.group import Group
from bee_core.hive_queue import Handled
from bee_core.hive_queue import HiveQueue as AwaitedHiveQueue
from bee_core.message import KEEP, NO_HEADERS, Draft, IfTaken, Ticket
from bee_core.queue import MAX_BYTES
from bee_core.strategy import Policy, Rules
from bee_core.sync.store import BlockingClock, Store, blocking, finish
from bee_core.tracing import Tracing

J = TypeVar("J")
T = TypeVar("T")


class Queue(Generic[J]):
    """A queue of jobs of type J, whose methods block: they do what those of `bee.Queue` do."""

    def __init__(
        self,
        broker: Store,
        name: str,
        form: TypeForm[J],
        *,
        policy: Policy = Policy(),
        codec: Codec[J] | None = None,
        max_bytes: int = MAX_BYTES,
        clock: Clock = SYSTEM_CLOCK,
        tracing: Tracing | None = None,
    ) -> None:
        if not isinstance(broker, Store):
            raise InvalidOption(
                f"broker must be one of sync.connect or sync.of, not {type(broker).__name__}"
            )
        inner = awaited.Queue(
            lambda: broker.inner,
            name,
            form,
            policy=policy,
            codec=codec,
            max_bytes=max_bytes,
            clock=clock,
            tracing=tracing,
        )
        self._view(inner, broker)

    @classmethod
    def of(cls, inner: awaited.Queue[J]) -> Self:
        """The view of a queue that is awaited elsewhere. `sync.of` is the short way to say it."""
        queue = cls.__new__(cls)
        queue._view(inner, Store(lambda: _store(inner)))
        return queue

    def _view(self, inner: awaited.Queue[J], broker: Store) -> None:
        self.inner = inner
        """The queue that this is a view of."""
        self.broker = broker
        """Where the messages are."""
        self._queue = copy.copy(inner)  # the same in all, but where it sends and how it sleeps
        self._queue._broker = blocking(broker)
        self._queue._clock = lambda: BlockingClock(inner.clock)

    @property
    def name(self) -> str:
        """Its name."""
        return self.inner.name

    def send(
        self,
        job: J,
        *,
        id: str | None = None,
        delay: Duration = 0.0,
        at: datetime | None = None,
        priority: int = 0,
        policy: Policy | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
        if_taken: IfTaken = KEEP,
        key: str | None = None,
    ) -> Ticket:
        """Send a job. When this returns, the broker has it. The options are those of `Queue.send`.

        id        name it yourself to send it once only, however often you try
        delay     seconds (or timedelta) until it may run; or `at`, an aware datetime
        priority  -9 to 9, higher first
        policy    what to do with this one job; what is not set comes from class, queue and hive
        if_taken  what if the id is live: Keep(), Reject() (raises IdTaken) or Update(...)
        key       of the jobs with one key only so many run at once: one, unless the workers'
                  `throttle` says otherwise
        """
        return finish(
            self._queue.send(
                job,
                id=id,
                delay=delay,
                at=at,
                priority=priority,
                policy=policy,
                headers=headers,
                if_taken=if_taken,
                key=key,
            )
        )

    def send_many(self, jobs: Iterable[J | Draft]) -> Sequence[Ticket]:
        """Send jobs, or drafts made with `draft`, in as few round trips as possible.

        Each batch of up to 1000 jobs or 1 MiB is stored whole or not at all.
        """
        return finish(self._queue.send_many(jobs))

    def draft(
        self,
        job: J,
        *,
        id: str | None = None,
        delay: Duration = 0.0,
        at: datetime | None = None,
        priority: int = 0,
        policy: Policy | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
        if_taken: IfTaken = KEEP,
        key: str | None = None,
    ) -> Draft:
        """The message that `send` would send. Takes the same options; does no I/O."""
        return self.inner.draft(
            job,
            id=id,
            delay=delay,
            at=at,
            priority=priority,
            policy=policy,
            headers=headers,
            if_taken=if_taken,
            key=key,
        )

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
        """Send many jobs, and one more that runs when each of them has ended, well or badly.

        See `bee.Queue.group`.
        """
        return finish(
            self._queue.group(
                jobs,
                then=then,
                id=id,
                timeout=timeout,
                priority=priority,
                policy=policy,
                headers=headers,
                key=key,
            )
        )

    @overload
    def result(self, id: str, *, timeout: Duration = 30.0) -> Any: ...
    @overload
    def result(self, id: str, *, timeout: Duration = 30.0, type: TypeForm[T]) -> T: ...
    def result(self, id: str, *, timeout: Duration = 30.0, type: Any = Any) -> Any:
        """Wait until a job has ended, and return what its handler returned.

        Raises JobFailed if it did not succeed, ResultTimeout if it does not end in time, and
        NoResult at once if there is nothing to wait for. See `bee.Queue.result`.
        """
        return finish(self._queue.result(id, timeout=timeout, type=type))

    def explain(self, id: str) -> Explanation:
        """Why a job is not running, or who runs it, and what has happened to it."""
        return finish(self._queue.explain(id))

    def cancel(self, *ids: str, to: Terminal = Archive(), running: bool = True) -> AbstractSet[str]:
        """Cancel jobs. Return the ids for which there was nothing to cancel."""
        return finish(self._queue.cancel(*ids, to=to, running=running))

    def cancel_where(
        self, predicate: Callable[[J], bool], *, to: Terminal = Archive(), running: bool = False
    ) -> Sequence[str]:
        """Cancel the jobs that the predicate picks. Return the ids of those that were.

        It reads the whole queue. See `bee.Queue.cancel_where`.
        """
        return finish(self._queue.cancel_where(predicate, to=to, running=running))

    def decode(self, id: str, body: bytes) -> J:
        """The job in a message; the only exception is DecodeError, naming the message."""
        return self.inner.decode(id, body)

    def rules(self, kind: type, headers: Mapping[str, str]) -> Rules:
        """What to do with a job of that class that was sent with those headers."""
        return self.inner.rules(kind, headers)

    def __repr__(self) -> str:
        return f"<sync view of queue {self.name!r}>"


class HiveQueue(Queue[J], Handled[J]):
    """A queue of a hive: send to it without await, and say who handles its jobs."""

    inner: AwaitedHiveQueue[J]

    def _view(self, inner: awaited.Queue[J], broker: Store) -> None:
        super()._view(inner, broker)
        self.handlers = self.inner.handlers


def _store(queue: awaited.Queue[Any]) -> Any:
    """Where a queue sends to; it need not be able to do more than a Broker can."""
    return queue.broker
