"""One event loop in a thread of its own, for everybody who calls without await.

It starts at the first call and ends with the process. Any thread may call, and waits for its own
call alone. Only verbs of brokers, and hives that work, run in the loop: what a user hands in
(jobs, codecs, predicates) runs in the thread that calls.

A child that is forked has a copy of the loop without the thread. It leaves that alone, for the
sockets in it are the parent's, and starts a loop and connections of its own when it needs them.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import selectors
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Generic, ParamSpec, TypeVar, cast
from weakref import WeakKeyDictionary, finalize

from bee_core.broker import Store
from bee_core.errors import BrokerClosed, MustAwait

P = ParamSpec("P")
T = TypeVar("T")

_PATIENCE = 2.0
"""Seconds that the connections get to be closed in when the process ends."""


def call(function: Callable[P, Awaitable[T]], *arguments: P.args, **options: P.kwargs) -> T:
    """What the function gives when it is awaited in the background.

    Interrupted (by Ctrl-C, by a signal's handler that raises), it cancels the call, waits for its
    end, and raises the interruption; interrupted again, it does not wait.
    """
    check_may_block()
    return _background().call(lambda: function(*arguments, **options))


def connected(store: Store) -> Store:
    """The clone of a store that is used in the background of this process."""
    return _background().clone_of(store)


def disconnect(store: Store) -> None:
    """Close that clone, if there is one. The next who asks gets another."""
    check_may_block()
    background = _current
    if background is not None and (clone := background.forget(store)) is not None:
        background.call(clone.aclose)


def check_may_block() -> None:
    """Raise MustAwait if an event loop runs in this thread: it would stand still meanwhile."""
    if asyncio._get_running_loop() is not None:
        raise MustAwait(
            "this call would block the event loop that runs in this thread: await the same method "
            "of the hive, queue or broker itself, or call this one in a thread (asyncio.to_thread)"
        )


class Background:
    """The loop, its thread, and the clones of brokers that are used in it."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._loop = asyncio.SelectorEventLoop(self._selector)
        self._lock = threading.Lock()
        self._clones: WeakKeyDictionary[Store, Store] = WeakKeyDictionary()
        self._tasks: set[asyncio.Task[None]] = set()  # which a loop does not hold on to
        self.closed = False
        self._thread = threading.Thread(target=self._run, name="bee:sync", daemon=True)
        self._thread.start()

    def call(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run it in the loop and wait for it."""
        call = _Call(work, self)
        try:
            self._loop.call_soon_threadsafe(call.start)
            call.ended.acquire()
        except BaseException:
            if not call.over:  # else it may be that nobody will say so again
                with suppress(RuntimeError):  # the loop was closed, and with it every call
                    self._loop.call_soon_threadsafe(call.cancel)
                    call.ended.acquire()
            raise
        return call.result()

    def clone_of(self, store: Store) -> Store:
        """The clone of a store that is used here. It is closed when the store is gone."""
        with self._lock:
            clone = self._clones.get(store)
            if clone is None:
                clone = self._clones[store] = store.clone()
                finalize(store, self._let_go, clone).atexit = False
            return clone

    def forget(self, store: Store) -> Store | None:
        """The clone of a store, which is no longer given to anybody."""
        with self._lock:
            return self._clones.pop(store, None)

    def close(self) -> None:
        """Close the connections and end the thread. What does not end in time is left behind."""
        self.closed = True
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._start, self._end)
        self._thread.join(_PATIENCE)

    def abandon(self) -> None:
        """In a forked child: see to it that nothing here can reach what is the parent's.

        The two share what the selector is made of: to unregister a socket in the child, as a
        destructor may, would make the parent deaf to it.
        """
        self.closed = True
        self._inherited = list(self._clones.values())
        self._selector.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self.closed:
            with suppress(SystemExit, KeyboardInterrupt):  # of one task: it is not over for all
                self._loop.run_forever()
        self._loop.close()

    def _start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = self._loop.create_task(work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _end(self) -> None:
        # Only daemon threads can still wait for an answer, and they end with the process.
        here = asyncio.current_task()
        left = [task for task in asyncio.all_tasks() if task is not here]
        for task in left:
            task.cancel()
        with self._lock:
            left += [asyncio.ensure_future(clone.aclose()) for clone in self._clones.values()]
        if left:
            await asyncio.wait(left, timeout=_PATIENCE / 2)
        self._loop.stop()

    def _let_go(self, clone: Store) -> None:
        """Nobody can ask for this clone any more. Called from anywhere: the store was collected."""

        async def close() -> None:
            with suppress(Exception):
                await clone.aclose()

        with suppress(RuntimeError):
            if not self.closed:
                self._loop.call_soon_threadsafe(self._start, close)


class _Call(Generic[T]):
    """One call, from when it is asked for until somebody has its result."""

    __slots__ = ("_background", "_error", "_result", "_task", "_work", "ended", "over")

    def __init__(self, work: Callable[[], Awaitable[T]], background: Background) -> None:
        self._work = work
        self._background = background
        self._task: asyncio.Task[T] | None = None
        self._result: T | None = None
        self._error: BaseException | None = None
        self.over = False
        self.ended = threading.Lock()  # is released, once, when it is over
        self.ended.acquire()

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._wait())
        self._task.add_done_callback(self._done)

    def cancel(self) -> None:
        """Called in the loop after `start` was; if it was not, there is nothing to wait for."""
        if self._task is not None:
            self._task.cancel()
        elif not self.over:
            self._end()

    def result(self) -> T:
        if self._error is None:
            return cast(T, self._result)
        try:
            raise self._error
        finally:
            self._error = None  # its traceback holds this frame

    async def _wait(self) -> T:
        return await self._work()

    def _done(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self._error = BrokerClosed("the call was cancelled")
        else:
            self._error = task.exception()
            if self._error is None:
                self._result = task.result()
        self._task = None  # its destructor is not for who waits, and may be interrupted any time
        if not self._background.closed:
            self._end()

    def _end(self) -> None:
        self.over = True
        self.ended.release()


_starting = threading.Lock()
_current: Background | None = None
_ended = False
_abandoned: list[Background] = []
"""Of the parent processes. Kept for ever, so that no destructor touches what is in them."""


def _background() -> Background:
    global _current
    found = _current
    if found is None:
        with _starting:
            found = _current
            if found is None:
                if _ended:  # a thread that is started now would never be told to end
                    raise BrokerClosed(
                        "the program ends, and its connections are closed: what sends at exit has "
                        "to be registered after the import of bee_core.sync"
                    )
                found = _current = Background()
    return found


def _begin_anew() -> None:
    """In a forked child: nothing is there yet."""
    global _current, _starting
    _starting = threading.Lock()
    if _current is not None:
        _current.abandon()
        _abandoned.append(_current)
        _current = None


@atexit.register
def _end() -> None:
    global _current, _ended
    _ended = True
    background, _current = _current, None
    if background is not None:
        background.close()


os.register_at_fork(after_in_child=_begin_anew)
