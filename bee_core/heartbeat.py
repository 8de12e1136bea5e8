"""Renewing leases from a thread of its own.

The thread has its own event loop and its own clone of the broker, so a handler that blocks
the worker's loop does not lose its lease. It renews what has been held for a third of a lease,
tells the worker what is lost, and notices when the worker's loop no longer answers. When a handler
has said how far it is, or when a cancelled job may be among those that run, it renews sooner.
Who blocks the loop is remarked upon in its history, with the stack.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from functools import partial

from bee_core.attempt import Attempt, LostLease
from bee_core.broker import Broker
from bee_core.checks import LONGEST_REMARK
from bee_core.clock import Clock, fail, finish
from bee_core.errors import BrokerUnavailable
from bee_core.message import Receipt
from bee_core.renewal import Renewal, Said
from bee_core.stacks import stack_of_thread
from bee_core.text import storable
from bee_core.trouble import own_cancellation

_CLOSING = 5.0
"""Seconds for the clone to close its connections."""
_SOON = 1.0
"""Seconds between two calls, at least, of which the second is not due for its leases' sake."""


class Heartbeat:
    """Renews the leases of one worker until it is stopped."""

    def __init__(
        self,
        broker: Broker,
        queue: str,
        *,
        lease: float,
        clock: Clock,
        held: Callable[[], Sequence[Attempt]],
        patience: float,
        on_lost: Callable[[Sequence[Attempt], LostLease], None],
        on_trouble: Callable[[str, Exception], None],
        on_recovered: Callable[[str], None],
        on_blocked: Callable[[Attempt | None, str], None],
        on_sign: Callable[[], None],
        on_died: Callable[[], None],
    ) -> None:
        self._broker = broker
        self._queue = queue
        self._lease = lease
        self._margin = min(1.0, lease / 10)  # handlers are stopped before the lease has run out
        self._renewal = Renewal(queue, lease, self._margin / 2, clock)
        self._watch = min(lease / 3, max(lease / 30, 0.1), 1.0)
        """Seconds after which the worker's loop is asked for another sign."""
        self._clock = clock
        self._held = held
        self._patience = patience
        self._on_lost = on_lost
        self._on_trouble = on_trouble
        self._on_recovered = on_recovered
        self._on_blocked = on_blocked
        self._on_sign = on_sign
        self._on_died = on_died
        self._alarm = clock.alarm()
        self._idle = self._stopping = self._troubled = False
        self._poked = False  # since there was last nothing to do
        self._news = self._hurried = False
        self._extended_at = -math.inf
        self._unanswered = 0
        self._asked_at = -math.inf
        self._worker_loop: asyncio.AbstractEventLoop | None = None
        self._worker_thread = 0
        self._thread: threading.Thread | None = None
        self._beating: asyncio.Task[None] | None = None
        self._ended: asyncio.Future[None] | None = None

    async def start(self) -> None:
        """Return when the thread is up and waiting; raise if it cannot be."""
        loop = self._worker_loop = asyncio.get_running_loop()
        self._worker_thread = threading.get_ident()
        self._ended = loop.create_future()
        up: asyncio.Future[None] = loop.create_future()
        try:
            self._launch(up)
        except BaseException:
            self._ended.set_result(None)
            raise
        await asyncio.shield(up)

    async def stop(self) -> None:
        """Return when the thread has ended and its broker is closed."""
        if self._ended is None:
            return
        self._stopping = True
        if self._beating is not None:
            with suppress(RuntimeError):  # its loop is closed: it has ended by itself
                self._beating.get_loop().call_soon_threadsafe(self._beating.cancel)
        await asyncio.shield(self._ended)
        if self._thread is not None:
            self._thread.join()  # this was its last word

    def poke(self) -> None:
        """Something is held again. Cheap to call for every job."""
        self._poked = True
        if self._idle:
            self._idle = False
            self._alarm.ring()

    def hear(self) -> None:
        """A handler has said how far it is. Any thread may call it, as often as it likes."""
        if not self._news:
            self._news = True
            with suppress(RuntimeError):  # its loop is closed: the handler has outlived its worker
                self._alarm.ring()

    def hurry(self) -> None:
        """Something that is held may have been cancelled: find out soon."""
        if not self._idle and not self._hurried:
            self._hurried = True
            self._alarm.ring()

    def _launch(self, up: asyncio.Future[None]) -> None:
        """Begin to live, in a thread. A simulation does it in another way."""
        name = f"bee:heartbeat:{self._queue}"
        thread = threading.Thread(target=self._run, args=(up,), name=name, daemon=True)
        thread.start()
        self._thread = thread

    # All below runs in the heartbeat's own thread.

    def _run(self, up: asyncio.Future[None]) -> None:
        with self._telling(up):
            asyncio.run(self._live(up))

    @contextmanager
    def _telling(self, up: asyncio.Future[None]) -> Iterator[None]:
        """Whatever becomes of it, the worker is told."""
        assert self._ended is not None
        try:
            yield
        except Exception as error:  # there is no clone of this broker, or no loop to be had
            self._tell(partial(fail, up, error))
        finally:
            if not self._stopping:
                self._tell(self._on_died)
            self._tell(partial(finish, self._ended))

    async def _live(self, up: asyncio.Future[None]) -> None:
        broker = self._broker.clone()
        self._beating = asyncio.create_task(self._beat(broker, up), name="bee:heartbeat")
        if self._stopping:
            self._beating.cancel()
        try:
            await asyncio.wait({self._beating})
            if not self._beating.cancelled():
                self._beating.result()
        finally:
            await self._close(broker)

    async def _close(self, broker: Broker) -> None:
        try:
            async with asyncio.timeout(_CLOSING):
                await broker.aclose()
        except Exception as error:
            self._tell(partial(self._on_trouble, "aclose", error))

    async def _beat(self, broker: Broker, up: asyncio.Future[None]) -> None:
        self._idle = True
        waiting = asyncio.create_task(self._alarm.wait(math.inf), name="bee:idle")
        try:
            await asyncio.sleep(0)  # it waits now, so that a clock that is moved finds it
            self._tell(partial(finish, up))
            await waiting
        finally:
            waiting.cancel()
        while True:
            self._idle = True  # before looking: who is held from here on will poke
            pause = await self._round(broker)
            if pause == math.inf and self._poked:
                # Where jobs come and go it stays awake: nobody need wake it for each.
                pause, self._poked = self._watch / 4, False
            self._idle = pause == math.inf and self._idle
            await self._alarm.wait(pause)

    async def _round(self, broker: Broker) -> float:
        """Renew what is due; return the seconds until the next round."""
        before = self._clock.now()
        self._news = False  # before looking: who has something to say from here on will ring
        held = [attempt for attempt in self._held() if self._deserves(attempt, before)]
        if not held:
            self._unanswered = 0
            self._hurried = False
            return math.inf
        third = self._lease / 3
        if before - self._asked_at >= self._watch - 0.001:
            self._watch_loop(held, before)
        news = Said(
            {a.lease.receipt.id: text for a in held if (text := a.news) is not None},
            {a.lease.receipt.id: a.remark for a in held if a.remark is not None},
        )
        due = [a for a in held if a.leased_until - before <= 2 * third + 0.001]
        old = self._chosen(held, due, news, before)
        if old:
            self._extended_at = before
            soonest = min(attempt.leased_until for attempt in held)
            until = soonest - self._margin if due else soonest - 2 * third  # in time for the others
            try:
                renewed = partial(self._renewed, news, before)
                await self._renewal.renew(broker, old, news, until, renewed)
                self._works()
            except BaseException as error:  # whatever a broker raises, the thread must go on
                if own_cancellation(error):
                    raise
                return self._after_failure(error)
        soonest = min(attempt.leased_until for attempt in held)
        now = self._clock.now()
        pause = min(max(soonest - 2 * third - now, third / 10), self._watch)
        if self._hurried or (any(news) and not old):
            self._news = True  # it is seen to: nobody need ring for it
            pause = min(pause, max(self._extended_at + _SOON - now, 0.001))
        return pause

    def _chosen(
        self, held: Sequence[Attempt], due: Sequence[Attempt], news: Said, now: float
    ) -> Sequence[Attempt]:
        """What to renew: what is due, and now and then what there is another reason for."""
        soon = now - self._extended_at >= _SOON - 0.001
        if self._hurried and soon:
            self._hurried = False
            return held
        if any(news) and (soon or due):
            about = news.progress.keys() | news.remarks.keys()
            return [a for a in held if a in due or a.lease.receipt.id in about]
        return due

    def _renewed(
        self, news: Said, at: float, some: Sequence[Attempt], lost: AbstractSet[Receipt]
    ) -> None:
        for attempt in some:
            if attempt.lease.receipt not in lost:
                attempt.leased_until = at + self._lease
                attempt.told = news.progress.get(attempt.lease.receipt.id, attempt.told)
                if attempt.remark == news.remarks.get(attempt.lease.receipt.id):
                    attempt.remark = None
        gone = [attempt for attempt in some if attempt.lease.receipt in lost]
        if gone:
            self._tell(partial(self._on_lost, gone, LostLease.CERTAIN))

    def _works(self) -> None:
        if self._troubled:
            self._troubled = False
            self._tell(partial(self._on_recovered, "extend"))

    def _after_failure(self, error: BaseException) -> float:
        """Try again soon; what cannot be renewed in time is lost, as far as can be known here."""
        now = self._clock.now()
        last_moment = now + self._margin
        held = [attempt for attempt in self._held() if self._deserves(attempt, now)]
        overdue = [attempt for attempt in held if attempt.leased_until <= last_moment]
        if overdue:
            self._tell(partial(self._on_lost, overdue, LostLease.PRESUMED))
        if not self._troubled:
            self._troubled = True
            shown = error if isinstance(error, Exception) else BrokerUnavailable(repr(error))
            self._tell(partial(self._on_trouble, "extend", shown))
        ends = [a.leased_until - last_moment for a in held if a.leased_until > last_moment]
        return min([self._margin, *ends])

    def _deserves(self, attempt: Attempt, now: float) -> bool:
        """What is given up is not kept alive: a lease presumed lost, a run past all patience."""
        if isinstance(attempt.ending, LostLease):
            return False
        return not attempt.running or now < attempt.deadline + self._patience

    def _watch_loop(self, held: Sequence[Attempt], now: float) -> None:
        """Ask the worker's loop for a sign; report it if the last question is still open."""
        self._asked_at = now
        if self._unanswered == 1:
            task = asyncio.current_task(self._worker_loop)
            stack = stack_of_thread(self._worker_thread)
            culprit = next((a for a in held if a.task is task and task is not None), None)
            if culprit is not None:
                said = "it blocks the event loop, at\n"
                culprit.remark = said + storable(stack)[len(said) - LONGEST_REMARK :]
            self._on_blocked(culprit, stack)
        self._unanswered += 1
        self._tell(self._answer)

    def _answer(self) -> None:
        self._unanswered = 0
        self._on_sign()

    def _tell(self, callback: Callable[[], None]) -> None:
        assert self._worker_loop is not None
        try:
            self._worker_loop.call_soon_threadsafe(callback)
        except RuntimeError:  # the worker's loop is closed: there is nobody left to tell
            if self._beating is not None:
                self._beating.cancel()
