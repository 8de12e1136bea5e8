"""A hive without await: declared, used and worked by a program that has no event loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

from typing_extensions import TypeForm

from bee_core import broker as contract
from bee_core import hive as awaited
from bee_core.auto import Auto
from bee_core.clock import SYSTEM_CLOCK, Clock
from bee_core.codec import Codec
from bee_core.duration import Duration
from bee_core.errors import InvalidOption
from bee_core.events import Observer
from bee_core.health import Health
from bee_core.journal import log_events
from bee_core.message import THROTTLE, Throttle
from bee_core.queue import MAX_BYTES
from bee_core.strategy import Policy
from bee_core.sync.background import call, disconnect
from bee_core.sync.queue import HiveQueue
from bee_core.sync.store import Store
from bee_core.tracing import Tracing

J = TypeVar("J")


class Hive:
    """The queues of a program on one broker. Takes the options of `bee.Hive`.

    `sync.of(hive)` is the view of one that exists. `bee worker` takes this one as well as that.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        broker: contract.Store | None = None,
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
        if isinstance(url, awaited.Hive):
            raise InvalidOption("sync.Hive makes a new hive: sync.of(hive) is a view of that one")
        self.inner = awaited.Hive(
            url,
            broker=broker.inner if isinstance(broker, Store) else broker,
            policy=policy,
            concurrency=concurrency,
            capacity=capacity,
            lease=lease,
            poll=poll,
            grace=grace,
            cancel_grace=cancel_grace,
            observers=observers,
            tracing=tracing,
            clock=clock,
        )
        """The hive that this is a view of."""

    @classmethod
    def of(cls, inner: awaited.Hive) -> Self:
        """The view of a hive that is awaited elsewhere. `sync.of` is the short way to say it."""
        hive = cls.__new__(cls)
        hive.inner = inner
        return hive

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
        """Declare a queue that carries jobs of that type: see `bee.Hive.queue`."""
        declared = self.inner.queue(
            name,
            form,
            policy=policy,
            codec=codec,
            max_bytes=max_bytes,
            concurrency=concurrency,
            precedence=precedence,
            share=share,
            size=size,
            throttle=throttle,
        )
        return HiveQueue.of(declared)

    @property
    def queues(self) -> Mapping[str, HiveQueue[Any]]:
        """Those that were declared, by name."""
        return {name: HiveQueue.of(queue) for name, queue in self.inner.queues.items()}

    @property
    def broker(self) -> Store:
        """The broker, which connects when it is first used."""
        return Store(lambda: self.inner.broker)

    def run(self, *, until_empty: bool = False) -> None:
        """Work on every queue that has a handler, until stopped or until all are empty.

        The handlers run in bee's own event loop, and in threads and processes, while this waits.
        """
        call(self._run, until_empty)

    @contextmanager
    def working(self) -> Iterator[Self]:
        """Work in the background while the program does something else.

        Leaving it stops gracefully. If a worker fails, leaving it raises the reason.
        """
        task = call(self.inner.start)

        async def end() -> None:
            try:
                self.inner.stop()
                await task
            finally:
                await self.inner.aclose()

        try:
            yield self
        finally:
            call(end)

    def stop(self, *, grace: Duration | None = None) -> None:
        """Stop what `run` or `working` is doing: see `Worker.stop`. Signal handlers may call it."""

        async def stop() -> None:
            self.inner.stop(grace=grace)

        call(stop)

    def kill(self) -> None:
        """Stop dead, as a crash would: see `Worker.kill`."""

        async def kill() -> None:
            self.inner.kill()

        call(kill)

    @property
    def stopping(self) -> bool:
        """Whether its workers have been told to stop, and have not ended yet."""
        return self.inner.stopping

    def health(self) -> Health:
        """How it is, for probes: see `Health`. Nothing is asked of the broker."""
        return self.inner.health()

    def close(self) -> None:
        """Close the connections. The hive may be used again afterwards."""
        if (broker := self.inner._broker) is not None:  # else nobody has used it
            disconnect(broker)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<sync view of {self.inner!r}>"

    async def _run(self, until_empty: bool) -> None:
        try:
            await self.inner.run(until_empty=until_empty)
        finally:
            await self.inner.aclose()
