"""A hive: the queues of a program, their handlers, and the broker they share.

A hive is declared at import time and opens nothing then. `async with hive:` is the time in
which it has connections; `run` and `working` are the times in which it works.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

from typing_extensions import TypeForm

from bee_core.auto import Auto, check_size
from bee_core.broker import Store
from bee_core.clock import SYSTEM_CLOCK, Clock
from bee_core.codec import Codec
from bee_core.config import broker_url
from bee_core.duration import Duration, seconds
from bee_core.errors import BrokerClosed, BrokerMisconfigured, InvalidOption, NoHandler
from bee_core.events import Observer
from bee_core.health import Health
from bee_core.hive_queue import HiveQueue
from bee_core.journal import log_events
from bee_core.message import THROTTLE, Throttle
from bee_core.parts import together
from bee_core.queue import MAX_BYTES
from bee_core.registry import connect
from bee_core.sharing import Sharing
from bee_core.strategy import Policy, check_policy, overlay
from bee_core.tracing import Tracing
from bee_core.url import as_url, redact
from bee_core.worker import SHORTEST_LEASE, SHORTEST_POLL, Worker

J = TypeVar("J")


class Hive:
    """The queues of a program on one broker.

    url         where; by default BEE_URL, or `url` in bee.toml, or memory://
    broker      a broker object instead of a url
    policy      what every queue asks for where it does not say otherwise
    capacity    jobs at once over all its queues in this process; by default each queue has its
                own `concurrency` and nothing else
    The rest are the options of `Worker`, for every worker of this hive.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        broker: Store | None = None,
        policy: Policy = Policy(),
        concurrency: int | Auto = 10,
        capacity: int | Auto | None = None,
        lease: Duration = 30.0,
        poll: Duration = 1.0,
        grace: Duration = 25.0,
        cancel_grace: Duration = 5.0,
        observers: Sequence[Observer] = (log_events,),
        tracing: Tracing | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if url is not None and broker is not None:
            raise InvalidOption("give a url or a broker, not both")
        self._url = url = None if url is None else as_url(url)
        self._origin = broker
        self._broker: Store | None = None
        self._making = threading.Lock()
        self._policy = check_policy(policy)
        self._concurrency = check_size(concurrency, "concurrency")
        self._sharing = Sharing(capacity)
        self._options: dict[str, Any] = {
            "lease": seconds(lease, "lease", least=SHORTEST_LEASE),
            "poll": seconds(poll, "poll", least=SHORTEST_POLL),
            "grace": seconds(grace, "grace"),
            "cancel_grace": seconds(cancel_grace, "cancel_grace"),
            "observers": tuple(observers),
            "tracing": tracing,
            "clock": clock,
        }
        self._workers: list[Worker[Any]] = []
        self._only: tuple[str, ...] = ()
        self.queues: dict[str, HiveQueue[Any]] = {}

    def queue(
        self,
        name: str,
        form: TypeForm[J],
        *,
        policy: Policy | None = None,
        codec: Codec[J] | None = None,
        max_bytes: int = MAX_BYTES,
        concurrency: int | Auto | None = None,
        precedence: int = 0,
        share: int = 0,
        size: int = 1,
        throttle: Throttle = THROTTLE,
    ) -> HiveQueue[J]:
        """Declare a queue that carries jobs of that type: a class, or a union of job classes.

        `throttle` limits how many of one key run at once, and how fast, over all workers. Of a
        hive's capacity a queue of higher `precedence` is served first, `share` slots are kept for
        this queue, and one of its jobs takes `size` units.
        """
        if name in self.queues:
            raise InvalidOption(f"this hive has a queue {name!r} already")
        most = self._concurrency if concurrency is None else check_size(concurrency, "concurrency")
        queue = HiveQueue(
            self._current_broker,
            name,
            form,
            policy=self._policy if policy is None else overlay(policy, self._policy),
            codec=codec,
            max_bytes=max_bytes,
            concurrency=most,
            place=self._sharing.place(precedence, share, size, of=most),
            throttle=throttle,
            clock=lambda: self._options["clock"],
            tracing=self._options["tracing"],
        )
        self.queues[name] = queue
        return queue

    @property
    def broker(self) -> Store:
        """The broker, made when it is first asked for; it connects when it is first used."""
        return self._current_broker()

    def _current_broker(self) -> Store:
        broker = self._broker
        if broker is None:
            with self._making:  # two threads that send first must not make two stores in memory
                if self._origin is None:
                    self._origin = connect(broker_url(self._url))
                if self._broker is None:
                    self._broker = self._origin.clone()
                broker = self._broker
        return broker

    async def aclose(self) -> None:
        """Close the connections. The hive may be used again afterwards, also in another loop."""
        broker, self._broker = self._broker, None
        if broker is not None:
            await broker.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    def run(self, *, until_empty: bool = False) -> Coroutine[Any, Any, None]:
        """Work on every queue that has a handler, until stopped or until all are empty.

        Empty means empty but for schedules: jobs that are delayed or to be repeated are waited
        for. Touches no signals; cancel the task that runs it, or call `stop`.
        """
        # The workers exist from here on, so that a `stop` before the first turn is heard.
        return self._run(self._make_workers(), until_empty)

    def stop(self, *, grace: Duration | None = None) -> None:
        """Stop what `run` or `working` is doing: see `Worker.stop`."""
        if grace is not None:
            seconds(grace, "grace")
        for worker in self._workers:
            worker.stop(grace=grace)

    @property
    def stopping(self) -> bool:
        """Whether its workers have been told to stop, and have not ended yet."""
        return any(worker.stopping for worker in self._workers)

    def health(self) -> Health:
        """How it is, for probes: see `Health`. Nothing is asked of the broker."""
        workers = self._workers
        return Health(
            alive=not all(worker.ended for worker in workers),
            stopping=self.stopping,
            queues={worker.queue.name: worker.health() for worker in workers},
        )

    def adjust(
        self,
        *,
        url: str | None = None,
        queues: Sequence[str] = (),
        concurrency: int | None = None,
        grace: Duration | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        """Say otherwise than where it was declared, before it runs. For the command line.

        Of `queues` the others are left alone; `observers` are added to those it has.
        """
        if unknown := [name for name in queues if name not in self.queues]:
            known = ", ".join(self.queues) or "none"
            raise InvalidOption(f"this hive has no queue {unknown[0]!r}; it has: {known}")
        if url is not None:
            self._url, self._origin, self._broker = as_url(url), None, None
        if queues:
            self._only = tuple(queues)
        if concurrency is not None:
            self._options["concurrency"] = check_size(concurrency, "concurrency")
        if grace is not None:
            self._options["grace"] = seconds(grace, "grace")
        self._options["observers"] += tuple(observers)

    @property
    def patience(self) -> tuple[float, float]:
        """Its `grace` and its `cancel_grace`, in seconds."""
        return self._options["grace"], self._options["cancel_grace"]

    def kill(self) -> None:
        """Stop dead, as a crash would: see `Worker.kill`."""
        for worker in self._workers:
            worker.kill()

    @contextmanager
    def substitute(self, broker: Store, **options: Any) -> Iterator[None]:
        """Work on another broker, with other worker options, inside `with`. For tests."""
        before = self._origin, self._broker, self._options
        self._origin, self._broker = broker, None
        self._options = self._options | options
        try:
            yield
        finally:
            self._origin, self._broker, self._options = before

    @asynccontextmanager
    async def working(self) -> AsyncIterator[Self]:
        """Work in the background while the program does something else.

        Leaving it stops gracefully. If a worker fails, leaving it raises the reason.
        """
        task = await self.start()
        try:
            yield self
        finally:
            self.stop()
            await task

    async def start(self) -> asyncio.Task[None]:
        """Start to work in the background; return when all workers take jobs.

        `working` is this with an end to it.
        """
        workers = self._make_workers()
        task = asyncio.create_task(self._run(workers, until_empty=False), name="bee:hive")
        up = asyncio.create_task(_all_started(workers), name="bee:starting")
        try:
            await asyncio.wait({task, up}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            raise
        finally:
            up.cancel()
        if task.done():
            task.result()
        return task

    async def _run(self, workers: list[Worker[Any]], until_empty: bool) -> None:
        try:
            async with self._sharing.tuned(self._options["clock"], self._options["observers"]):
                if until_empty:
                    await self._run_until_empty(workers)
                else:
                    await together(worker.run() for worker in workers)
        finally:
            self._workers = [worker for worker in self._workers if worker not in workers]

    def _make_workers(self) -> list[Worker[Any]]:
        chosen = [q for q in self.queues.values() if not self._only or q.name in self._only]
        handled = [queue for queue in chosen if queue.handlers.any]
        self._sharing.check({queue.name: queue.place for queue in handled})
        workers = [
            Worker(
                self.broker,
                queue.name,
                queue.form,
                handlers=queue.handlers,
                policy=queue.policy,
                codec=queue.codec,
                max_bytes=queue.max_bytes,
                throttle=queue.throttle,
                place=queue.place,
                **{"concurrency": queue.concurrency} | self._options,
            )
            for queue in handled
        ]
        if not workers:
            raise NoHandler("this hive has no queue with a handler: decorate a function first")
        self._workers += workers
        return workers

    async def _run_until_empty(self, workers: list[Worker[Any]]) -> None:
        """Each queue until it is empty; again, if a handler has filled another one meanwhile."""
        while True:
            await together(worker.run(until_empty=True) for worker in workers)
            empty = await self._all_empty(workers)
            if empty or any(worker.stopping for worker in workers):
                return
            self._workers = [worker for worker in self._workers if worker not in workers]
            workers[:] = self._make_workers()

    async def _all_empty(self, workers: list[Worker[Any]]) -> bool:
        try:
            return all([await worker.is_empty() for worker in workers])
        except (BrokerClosed, BrokerMisconfigured):
            raise
        except Exception:  # the next round's workers ask again, and say so if it lasts
            return False

    def __repr__(self) -> str:
        try:
            url = redact(broker_url(self._url))
            where = url if self._origin is None else repr(self._origin)
        except InvalidOption as error:
            where = f"nowhere: {error}"
        return f"<Hive of {', '.join(self.queues) or 'no queues'} on {where}>"


async def _all_started(workers: list[Worker[Any]]) -> None:
    for worker in workers:
        await worker.started()
