"""A store without await: every verb of `Broker` and `Inspector`, and the way back to them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import TracebackType
from typing import Any, Self, TypeVar

from bee_core import broker as contract
from bee_core.broker import NOTHING
from bee_core.clock import Alarm, Clock
from bee_core.disposition import Terminal
from bee_core.errors import BrokerClosed
from bee_core.message import (
    NO_REPORTS,
    THROTTLE,
    Draft,
    Lease,
    Receipt,
    Report,
    Sent,
    Settlement,
    Throttle,
)
from bee_core.stored import Holder, Page, QueueStats, State, Stored
from bee_core.sync.background import call, check_may_block, connected, disconnect

T = TypeVar("T")


class Store:
    """A broker whose verbs block: they mean what `Broker` and `Inspector` say of them.

    Any thread may use it, and a process that is forked has connections of its own. It is a context
    manager; leaving it closes the connections.
    """

    def __init__(self, inner: contract.Store | Callable[[], contract.Store]) -> None:
        self._inner = inner
        self._closed = False

    @property
    def inner(self) -> contract.Store:
        """The store that this is a view of. It is not used itself, but a clone of it."""
        return self._inner() if callable(self._inner) else self._inner

    def send(self, queue: str, drafts: Sequence[Draft]) -> Sequence[Sent]:
        return call(self._open().send, queue, drafts)

    def lease(
        self,
        queue: str,
        *,
        limit: int,
        duration: float,
        holder: str,
        throttle: Throttle = THROTTLE,
    ) -> Sequence[Lease]:
        lease = self._open().lease
        return call(lease, queue, limit=limit, duration=duration, holder=holder, throttle=throttle)

    def extend(
        self,
        queue: str,
        receipts: Sequence[Receipt],
        *,
        duration: float,
        progress: Mapping[str, str] = NOTHING,
        remarks: Mapping[str, str] = NOTHING,
    ) -> AbstractSet[Receipt]:
        extend = self._open().extend
        return call(extend, queue, receipts, duration=duration, progress=progress, remarks=remarks)

    def settle(self, queue: str, settlements: Sequence[Settlement]) -> AbstractSet[Receipt]:
        return call(self._open().settle, queue, settlements)

    def cancel(
        self, queue: str, ids: Sequence[str], *, to: Terminal, running: bool = True
    ) -> AbstractSet[str]:
        return call(self._open().cancel, queue, ids, to=to, running=running)

    def wait(self, queue: str, *, timeout: float) -> None:
        return call(self._open().wait, queue, timeout=timeout)

    def results(self, queue: str, ids: Sequence[str]) -> Mapping[str, Report]:
        return call(self._open().results, queue, ids)

    def reports(
        self, queue: str, id: str, *, after: str = "", limit: int = 1000
    ) -> Sequence[Report]:
        return call(self._open().reports, queue, id, after=after, limit=limit)

    def announce(self, queue: str, holder: str, *, about: str, duration: float) -> None:
        return call(self._open().announce, queue, holder, about=about, duration=duration)

    def queues(self) -> Sequence[str]:
        return call(self._open().queues)

    def stats(self, queue: str) -> QueueStats:
        return call(self._open().stats, queue)

    def get(self, queue: str, id: str) -> Stored | None:
        return call(self._open().get, queue, id)

    def scan(self, queue: str, state: State, *, after: str | None = None, limit: int = 100) -> Page:
        return call(self._open().scan, queue, state, after=after, limit=limit)

    def restore(self, queue: str, ids: Sequence[str]) -> AbstractSet[str]:
        return call(self._open().restore, queue, ids)

    def prune(
        self, queue: str, *, older_than: float = 0.0, keep: int = 0, limit: int = 1000
    ) -> int:
        return call(self._open().prune, queue, older_than=older_than, keep=keep, limit=limit)

    def purge(self, queue: str) -> int:
        return call(self._open().purge, queue)

    def drop(self, queue: str) -> None:
        return call(self._open().drop, queue)

    def pause(self, queue: str) -> None:
        return call(self._open().pause, queue)

    def resume(self, queue: str) -> None:
        return call(self._open().resume, queue)

    def workers(self, queue: str) -> Sequence[Holder]:
        return call(self._open().workers, queue)

    def adopt(
        self,
        queue: str,
        messages: Sequence[Stored],
        *,
        reports: Mapping[str, Sequence[Report]] = NO_REPORTS,
        beyond: int = 0,
    ) -> Sequence[Stored]:
        return call(self._open().adopt, queue, messages, reports=reports, beyond=beyond)

    def expel(self, queue: str, messages: Sequence[Stored]) -> Sequence[Stored]:
        return call(self._open().expel, queue, messages)

    def clone(self) -> Store:
        return Store(self.inner.clone())

    def close(self) -> None:
        """Let go of every connection. May be called twice."""
        if not self._closed:
            disconnect(self.inner)
            self._closed = True

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

    def _open(self) -> contract.Store:
        check_may_block()
        if self._closed:
            raise BrokerClosed("this sync view of a broker was closed")
        return connected(self.inner)


def blocking(store: Store) -> contract.Store:
    """The same store for code that awaits it: its verbs block, and never give way.

    So the code of a queue is there once. `finish` runs it in the thread that calls, and with it
    whatever of the user's it calls.
    """
    kind: Any = _Blocking  # whose verbs are made below
    view: contract.Store = kind(store)
    return view


class _Blocking(contract.Store):
    def __init__(self, store: Store) -> None:
        self._store = store


class BlockingClock:
    """A clock whose sleep blocks."""

    def __init__(self, inner: Clock) -> None:
        self._inner = inner

    def now(self) -> float:
        return self._inner.now()

    async def sleep(self, seconds: float) -> None:
        call(self._inner.sleep, seconds)

    def alarm(self) -> Alarm:
        return self._inner.alarm()


def finish(work: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns that awaits nothing but verbs which block."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise RuntimeError(f"{work!r} awaits something that does not block")


def _blocking(verb: str) -> Callable[..., Any]:
    async def method(self: _Blocking, *arguments: Any, **options: Any) -> Any:
        return getattr(self._store, verb)(*arguments, **options)

    return method


for _protocol in (contract.Broker, contract.Inspector):
    for _name, _member in vars(_protocol).items():
        if inspect.iscoroutinefunction(_member) and hasattr(Store, _name):
            setattr(_Blocking, _name, _blocking(_name))
