"""Taking messages: as many as there is room for, for as long as there is reason to.

Whatever a broker does, a fetcher that has not been stopped goes on taking: a worker that lives and
no longer consumes is the worst bug of this field.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple, Protocol, cast

from bee_core.broker import Broker, Inspector, Order, Standing
from bee_core.capacity import Alone, Member, Place
from bee_core.clock import Clock
from bee_core.errors import BrokerClosed, BrokerMisconfigured
from bee_core.message import Lease, Throttle
from bee_core.optional import belongs_to
from bee_core.portion import Portion
from bee_core.trouble import Trouble, own_cancellation

_FEW = 2
"""Messages that are ordered at once: one, and it is known whether there are more. If the process is
stopped dead while an order stands, or cut off, the store may still give it as many."""
_STAND = 10.0
"""Seconds that an order stands, at most: a connection that says nothing for long may be gone."""
_LONGER = 6.0
"""A lease counts from when it was asked for: so many times as long as an order stands it has to be.
"""


class Waiting(NamedTuple):
    """A wait for a wake-up, what cuts it short, and where it is."""

    cut: Callable[[], None]
    loop: asyncio.AbstractEventLoop


class OnLeases(Protocol):
    """Takes messages: when they were asked for, and whether as many came as were asked for.

    `stood` says that they had to become ready first, so how long it took says nothing.
    """

    def __call__(
        self, leases: Sequence[Lease], asked_at: float, *, full: bool, stood: bool
    ) -> None: ...


class Fetcher:
    """Leases messages of one queue for one worker.

    `room` says how many more the worker can take, `on_leases` takes some, `jobs` says how many have
    been started by now and how many of those taken are still to be, `resting` whether the worker
    holds nothing, and `is_empty` whether nothing is left in the queue. `on_vain` hears of a wake-up
    after which nothing was to be had. `may_order` says whether a lease may be left with the store.
    If the worker has a `place` in a shared capacity, what may be leased is claimed there first;
    `running` says how many jobs run.
    """

    def __init__(
        self,
        broker: Broker,
        queue: str,
        holder: str,
        *,
        lease: float,
        poll: float,
        throttle: Throttle,
        clock: Clock,
        trouble: Trouble,
        room: Callable[[], int],
        on_leases: OnLeases,
        jobs: Callable[[], tuple[int, int]],
        resting: Callable[[], bool],
        is_empty: Callable[[], Awaitable[bool]],
        on_vain: Callable[[], None],
        may_order: Callable[[], bool],
        place: Place | None,
        running: Callable[[], int],
    ) -> None:
        self._broker = broker
        self._queue = queue
        self._holder = holder
        self._lease = lease
        self._poll = poll
        self._throttle = throttle
        self._clock = clock
        self._trouble = trouble
        self._room = room
        self._on_leases = on_leases
        self._jobs = jobs
        self._resting = resting
        self._is_empty = is_empty
        self._on_vain = on_vain
        self._may_order = may_order
        self._running = running
        self._stand = min(poll, _STAND)
        is_standing = isinstance(broker, Standing) and belongs_to(broker, "order", "lease")
        self._standing: Standing | None = None
        if is_standing and lease >= _LONGER * self._stand:
            self._standing = cast(Standing, broker)
        self.hungry = False
        """Whether its last lease came back full."""
        self._stopped = False
        self._portion = Portion()
        self.last_fetched: float | None = None
        """When the broker last answered, or when there was last no room to ask for more."""
        self.full = False
        """Whether it waits for room."""
        self._more_room = asyncio.Event()
        on_room = self._more_room.set
        self._member: Member | Alone = (
            Member(place, room=room, running=running, on_room=on_room) if place else Alone(on_room)
        )
        self._waiting: Waiting | None = None

    def join(self) -> None:
        """From now on its share of the capacity is kept for it."""
        self._member.join()

    def leave(self) -> None:
        """It uses nothing of the capacity any more."""
        self._member.leave()

    async def run(self, *, max_jobs: float, until_empty: bool) -> None:
        """Return when stopped, when enough jobs were started, or when there is nothing left.

        Raises only what waiting cannot mend: BrokerClosed and BrokerMisconfigured.
        """
        try:
            await self._fetch(max_jobs, until_empty)
        finally:
            self._member.rest()

    def stop(self) -> None:
        """Take no more."""
        self._stopped = True
        self._more_room.set()
        self.look_again()

    def made_room(self) -> None:
        """The worker can take more than a moment ago; or others can, who share its capacity."""
        self._member.stir()

    def look_again(self) -> None:
        """Do not wait for a wake-up any longer."""
        if self._waiting is not None:
            with suppress(RuntimeError):  # its loop is closed
                self._waiting.loop.call_soon_threadsafe(self._cut, self._waiting)

    def _cut(self, waiting: Waiting) -> None:
        if self._waiting is waiting:
            waiting.cut()

    @contextmanager
    def _until_cut(self, cut: Callable[[], None]) -> Iterator[None]:
        """Somebody may say meanwhile that it is not to be waited for any longer."""
        self._waiting = Waiting(cut, asyncio.get_running_loop())
        if self._stopped:  # by another thread, a moment ago
            cut()
        try:
            yield
        finally:
            self._waiting = None

    async def _fetch(self, max_jobs: float, until_empty: bool) -> None:
        woken, expecting = False, True
        while not self._stopped:
            most = min(self._room(), self._portion.most)
            if max_jobs < math.inf:
                started, waiting = self._jobs()
                if started >= max_jobs:
                    return
                # Those that wait may yet have to be given back: then others take their places.
                most = min(most, int(max_jobs) - started - waiting)
            expecting = expecting or most < 1
            limit = self._member.claim(most, expecting=expecting)
            if limit < 1 and expecting:
                self._more_room.clear()
                self.full = True
                await self._more_room.wait()
                self.full, self.last_fetched = False, self._clock.now()
                continue
            if limit < 1:  # nobody keeps a slot for a queue in which nothing waits
                expecting = await self._ask(self._is_ready) or (woken := await self._wait())
                continue
            asked_at = self._clock.now()
            leases = await self._take("lease", limit, self._lease_now(limit))
            if leases is None:
                continue
            expecting = self.hungry = len(leases) >= limit
            self._on_leases(leases, asked_at, full=expecting, stood=False)
            self._member.give_back(full=expecting)
            if woken and not leases:
                self._on_vain()
            woken = False
            if len(leases) < limit:
                await asyncio.sleep(0)  # what was just taken begins first
                if until_empty and self._resting() and await self._ask(self._is_empty):
                    return
                orders = max_jobs == math.inf and not until_empty
                woken = expecting = await (self._take_orders() if orders else self._wait())

    async def _lease_now(self, limit: int) -> Sequence[Lease]:
        return await self._broker.lease(
            self._queue,
            limit=limit,
            duration=self._lease,
            holder=self._holder,
            throttle=self._throttle,
        )

    def _order(self, limit: int) -> Order | None:
        """A lease that stands until something may be ready, if such can be had.

        None while a job runs: if that blocks the event loop, nobody takes what comes.
        """
        if self._standing is None or self._running() or not self._may_order():
            return None
        return self._standing.order(
            self._queue,
            limit=limit,
            duration=self._lease,
            holder=self._holder,
            throttle=self._throttle,
            timeout=self._stand,
        )

    async def _take_orders(self) -> bool:
        """Take what comes, a few at a time, by leases that stand with the store; or else wait.

        Say whether it was woken and has not looked yet.
        """
        while not self._stopped and (limit := min(self._room(), _FEW)) > 0:
            try:
                order = self._order(limit)
            except (BrokerClosed, BrokerMisconfigured):
                raise
            except Exception as error:
                await self._trouble.back_off("wait", error)
                return False
            if order is None:
                return await self._wait()
            asked_at = self._clock.now()
            with self._until_cut(order.recall):
                leases = await self._take("wait", limit, order.leases())
            if leases is None:
                return False
            self.hungry = len(leases) >= limit
            self._on_leases(leases, asked_at, full=self.hungry, stood=True)
            if self.hungry:
                break
            if not leases and self._clock.now() < asked_at + self._stand:
                self._on_vain()
                return await self._wait()  # which says so if it is the store that has a problem
            await asyncio.sleep(0)  # what was just taken begins first
        return False

    async def _take(
        self, verb: str, limit: int, asked: Awaitable[Sequence[Lease]]
    ) -> Sequence[Lease] | None:
        """Up to so many; None, after a pause, if the broker is in trouble."""
        try:
            leases = await asked
        except (BrokerClosed, BrokerMisconfigured):
            raise
        except BaseException as error:
            if own_cancellation(error):
                raise
            self._portion.failed(limit, self._clock.now())
            self._member.give_back(full=False)
            await self._trouble.back_off(verb, error)
            return None
        self._trouble.over(verb)
        self.last_fetched = self._clock.now()
        self._portion.worked(self.last_fetched)
        return leases

    async def _wait(self) -> bool:
        """Sleep until something may be ready. Only a hint: whatever goes wrong costs a poll.

        Say whether it was woken before its time.
        """
        if self._stopped:
            return False
        until = self._clock.now() + self._poll
        loop, limit = asyncio.get_running_loop(), asyncio.timeout(None)
        task, trouble = asyncio.current_task(), None
        cancelled = task.cancelling() if task is not None else 0

        def cut() -> None:
            if not limit.expired():
                limit.reschedule(loop.time())

        try:
            async with limit:
                with self._until_cut(cut):
                    await self._broker.wait(self._queue, timeout=self._poll)
        except BaseException as error:
            if own_cancellation(error):
                raise
            trouble = error  # a cancellation of nobody's here has leaked from a driver
        if task is not None and task.cancelling() > cancelled:
            raise asyncio.CancelledError  # which the broker has kept to itself
        if limit.expired():
            return False  # cut short
        if trouble is not None:
            await self._trouble.back_off("wait", trouble)
            return False
        self._trouble.over("wait")
        return self._clock.now() < until

    async def _is_ready(self) -> bool:
        """Whether something waits to be leased, as far as can be known."""
        if not isinstance(self._broker, Inspector):
            return True
        stats = await self._broker.stats(self._queue)
        return stats.ready > 0 and not stats.paused

    async def _ask(self, question: Callable[[], Awaitable[bool]]) -> bool:
        """What the store says, or no if it does not answer."""
        try:
            answer = await question()
        except BaseException as error:
            if own_cancellation(error):
                raise
            await self._trouble.back_off("stats", error)
            return False
        self._trouble.over("stats")
        return answer
