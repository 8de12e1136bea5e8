"""One seed: some workers, some jobs, all that can go wrong, and a last worker that drains."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Callable
from random import Random
from typing import Any

import bee_core as bee
from bee_core.errors import BrokerError, WorkerStuck
from bee_core.events import AttemptLost, AttemptStarted, Event
from bee_core.message import IfTaken, Update
from bee_core.strategy import resolve
from bee_core.testing.simulation import Nothing, Process, Simulation
from bee_core.testing.simulation.simulation import SimulatedClock
from bee_core.ticks import SCHEDULE, message_id
from tests.simulation.audit import audit, audit_end
from tests.simulation.books import DEADLINE, QUEUE, Books, Leased, Member, Run, WatchedStore
from tests.simulation.wire import Link, Weather
from tests.simulation.work import Hands, Work, draw_moves, draw_policy

LIMIT = 1500.0
"""Seconds in which a last worker must have done everything, when nothing goes wrong any more."""
LEAVING = 3 * DEADLINE
"""Seconds in which a worker must have left, beside the grace that its jobs have."""


class World:
    """Everything in one simulated run."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        chance = self.chance = Random(seed)
        self.simulation = Simulation(seed, shuffle=chance.random() < 0.7)
        self.books = Books()
        self.store_clock = SimulatedClock(self.simulation)
        self.store = WatchedStore(self.store_clock, self.books)
        self.hands = Hands(self.simulation, self.books)
        self.trouble = chance.choice((0.0, 0.03, 0.1, 0.3))
        self.slowness = chance.choice((0.0, 0.05, 1.0, 4.0))
        self.lease = chance.choice((30.0, 30.0, 30.0, 6.0))
        self.policies = [draw_policy(chance) for _ in range(3)]
        self.books.policy = self.policies[0]
        self.weathers: list[Weather] = []
        self.sent: set[str] = set()
        self.trace: list[tuple[Any, ...]] = []
        """All that happened, in order."""
        self.wrong: list[str] = []
        self.schedules: list[bee.Schedule[Work]] = []
        if chance.random() < 0.2:
            self.schedules = [bee.Schedule("tick", Work(), every=7.0)]

    @property
    def trace_hash(self) -> str:
        """The same for the same seed."""
        return hashlib.sha256(repr(self.trace).encode()).hexdigest()

    def run(self) -> list[str]:
        """Everything that was wrong; empty if all was well."""
        try:
            self.simulation.run(self._direct())
        except Nothing as error:
            self.books.blame(f"it does not end: {error}")
            self.wrong, self.trace = self.books.wrong, self.books.trace
        return self.wrong

    # The director.

    async def _direct(self) -> None:
        try:
            await self._play()
            audit(self.books, self.store)
        except TimeoutError as error:
            self.books.blame(f"it does not end: {error}")
        self.wrong, self.trace = list(self.books.wrong), list(self.books.trace)

    async def _play(self) -> None:
        chance = self.chance
        self._note("seed", self.seed, self.trouble, self.slowness, self.lease)
        director = self._member(self.simulation.processes[0], None, 0)
        weather = Weather(self.trouble, self.slowness)
        self.weathers.append(weather)
        link = Link(self.store, director, weather, self.simulation, self.books)
        queue: bee.Queue[Work] = bee.Queue(link, QUEUE, Work, clock=self.simulation.clock)
        for _ in range(chance.randint(1, 3)):
            self._start_worker()
        for _ in range(chance.randint(3, 12)):
            await self._act(queue)
            await asyncio.sleep(chance.choice((0.0, 0.1, 3.0, 15.0)) * chance.random())
        await self._calm_down()
        error: BaseException | None = WorkerStuck()
        while isinstance(error, WorkerStuck):  # who is stuck leaves the rest to the next one
            last = self._start_worker(until_empty=True)
            await self._ended(last, LIMIT)
            audit_end(self.books, last)
            error = last.error

    async def _act(self, queue: bee.Queue[Work]) -> None:
        alive = [m for m in self.books.members.values() if m.concurrency and self._is_alive(m)]
        match self.chance.choice(_ACTS):
            case "send":
                await self._send(queue)
            case "start" if len(alive) < 3:
                self._start_worker()
            case "kill" if alive:
                self._kill(self.chance.choice(alive))
            case "end" if alive:
                self._end(self.chance.choice(alive))
            case "stop" if alive:
                process = self.chance.choice(alive).process
                seconds = self.chance.choice((0.5, self.lease, 2 * self.lease))
                self._note("SIGSTOP", process.name, seconds)
                process.stop(seconds)
            case "cut":
                await self._cut()
            case "jump":
                seconds = self.chance.choice((-1, 1)) * self.chance.choice((1.0, 20.0, 60.0))
                self._note("the store's clock jumps", seconds)
                self.store_clock.offset += seconds
                self.books.jumped_at = math.inf
            case "cancel" if self.sent:
                await self._cancel()
            case "change" if self.sent:
                await self._send(queue, Update(), self.chance.choice(sorted(self.sent)))
            case "pause":
                await self.store.pause(QUEUE)
                await asyncio.sleep(5 * self.chance.random())
                await self.store.resume(QUEUE)
            case _:
                pass  # there is nobody to do it to

    async def _send(
        self, queue: bee.Queue[Work], if_taken: IfTaken = bee.Keep(), id: str | None = None
    ) -> None:
        """Until the store has said that it has them."""
        chance = self.chance
        count = 1 if id else chance.choice((1, 2, 5))
        ids = [id or f"job-{len(self.sent) + number}" for number in range(count)]
        drafts = [self._draft(queue, one, if_taken) for one in ids]
        while True:
            try:
                await queue.send_many(drafts)
            except (BrokerError, OSError, asyncio.CancelledError, bee.InvalidOption):
                await asyncio.sleep(0.1)
            else:
                self.sent |= {draft.id for draft in drafts}
                return

    def _draft(self, queue: bee.Queue[Work], id: str, if_taken: IfTaken) -> bee.Draft:
        chance = self.chance
        policy = self.books.policies[id] = chance.choice(self.policies)
        return queue.draft(
            Work(draw_moves(chance)),
            id=id,
            delay=chance.choice((0.0, 0.0, 0.0, 10 * chance.random())),
            priority=chance.choice((0, 0, 0, 5)),
            policy=policy,
            key=chance.choice((None, None, None, "a", "b")),
            if_taken=if_taken,
        )

    async def _cancel(self) -> None:
        ids = [self.chance.choice(sorted(self.sent))]
        to = self.chance.choice((bee.Delete(), bee.Archive()))
        self._note("cancel", ids)
        self.books.cancelled |= set(ids)
        await self.store.cancel(QUEUE, ids, to=to, running=self.chance.random() < 0.7)

    async def _cut(self) -> None:
        weather = self.chance.choice(self.weathers)
        weather.cut = True
        seconds = self.chance.choice((1.0, self.lease, 2 * self.lease))
        self._note("cut", seconds)
        await asyncio.sleep(seconds)
        weather.cut = False

    async def _calm_down(self) -> None:
        """Nothing goes wrong any more, and all who work end."""
        self._note("calm")
        for weather in self.weathers:
            weather.trouble = weather.slowness = 0.0
            weather.cut = False
        if self.chance.random() < 0.3:
            await self._consumed()
        for member in list(self.books.members.values()):
            if member.concurrency and self._is_alive(member):
                self._end(member)
        for member in list(self.books.members.values()):
            if member.concurrency and member.process.alive:
                held_up = max(0.0, member.process.held_up_at - self.simulation.now)
                grace = max(0.0, member.stopping - self.simulation.now)
                await self._ended(member, held_up + grace + LEAVING)
                audit_end(self.books, member)

    async def _consumed(self) -> None:
        """Whoever lives and was not told to stop does all that is left."""
        until = self.simulation.now + LIMIT
        while any(self._is_alive(m) for m in self.books.members.values() if m.concurrency):
            if all(id.startswith(message_id("")) for id in self.store.live()):
                return
            if self.simulation.now > until:
                raise TimeoutError("a worker lives, and does not consume")
            await asyncio.sleep(10.0)

    # Workers.

    def _start_worker(self, *, until_empty: bool = False) -> Member:
        process = self.simulation.process(f"worker-{len(self.books.members)}")
        concurrency = self.chance.choice((1, 2, 5))
        calm = until_empty
        weather = Weather(0.0 if calm else self.trouble, 0.0 if calm else self.slowness)
        self.weathers.append(weather)
        member = self._member(process, None, concurrency)
        member.slow = weather.slowness >= 1.0
        process.start(self._work(member, weather, until_empty))
        return member

    def _member(self, process: Process, worker: Any, concurrency: int) -> Member:
        member = self.books.members[process.name] = Member(process, worker, concurrency)
        member.worker = worker
        return member

    async def _work(self, member: Member, weather: Weather, until_empty: bool) -> None:
        """The program of a worker process."""

        async def handle(job: Work, delivery: bee.Delivery[Work]) -> object:
            return await self._handle(member, job, delivery)

        worker = member.worker = bee.Worker(
            Link(self.store, member, weather, self.simulation, self.books),
            QUEUE,
            Work,
            handle,
            policy=self.policies[0],
            concurrency=member.concurrency,
            lease=self.lease,
            poll=5.0,
            grace=5.0,
            cancel_grace=2.0,
            observers=(self._observer(member),),
            schedules=self.schedules,
            clock=self.simulation.clock,
            chance=self.simulation.chance.random,
        )
        self._note(member.process.name, "starts")
        try:
            await worker.run(until_empty=until_empty)
        except asyncio.CancelledError:
            if not member.cancelled and not self.simulation.over:
                self.books.blame(f"{member.process.name} was cancelled by nobody")
        except WorkerStuck as error:
            member.error = error
        finally:
            member.over = True
            self._note(member.process.name, "ends")

    def _is_alive(self, member: Member) -> bool:
        return member.process.alive and not member.over and member.stopping == math.inf

    def _kill(self, member: Member) -> None:
        """By -9, or by the worker's own `kill`."""
        if self.chance.random() < 0.7:
            self._note(member.process.name, "kill -9")
            member.was_alive = False
            member.process.kill()
            return

        def kill() -> None:
            self._note(member.process.name, "kill()")
            member.killed = member.stopping = self.simulation.now
            member.worker.kill()

        self._signal(member, kill)

    def _end(self, member: Member) -> None:
        """Told to stop, once or twice, or cancelled."""
        chance = self.chance

        def stop(grace: float | None) -> Callable[[], None]:
            def call() -> None:
                self._note(member.process.name, "stop", grace)
                patience = 5.0 if grace is None else grace
                member.stopping = min(member.stopping, self.simulation.now + patience)
                member.worker.stop(grace=grace)

            return call

        member.stopping = min(member.stopping, self.simulation.now + 20.0)
        self._signal(member, stop(chance.choice((None, 0.0, 3.0, 20.0))))
        if chance.random() < 0.3:
            self._signal(member, stop(0.0))

    def _signal(self, member: Member, function: Callable[[], None]) -> None:
        def call() -> None:
            if member.worker is None:  # the process has only just begun
                member.process.loop.call_later(0.001, call)
            else:
                function()

        member.process.call(call)

    async def _ended(self, member: Member, patience: float) -> None:
        """Wait for it. A worker always ends when it is told to."""
        until = self.simulation.now + patience
        pause = 0.1
        while not member.over:
            if self.simulation.now > until:
                raise TimeoutError(f"{member.process.name} has not ended in {patience:g} s")
            await asyncio.sleep(pause)
            pause = min(5.0, 2 * pause)

    def _observer(self, member: Member) -> Callable[[Event], None]:
        def hear(event: Event) -> None:
            if member.process.alive:
                member.events.append(event)
                id = getattr(event, "id", None)
                shown = (self.books.name(id),) if isinstance(id, str) else ()
                self._note(member.process.name, type(event).__name__, *shown)
                if isinstance(event, AttemptStarted) and event.tag == SCHEDULE:
                    member.ended += 1  # a tick is over at once
                if isinstance(event, AttemptLost):
                    member.given_up.add(event.token)

        return hear

    # The handler.

    async def _handle(self, member: Member, job: Work, delivery: bee.Delivery[Work]) -> object:
        past = delivery.counters.deliveries - 1
        move = job.moves[past] if past < len(job.moves) else "ok"
        now = self.simulation.now
        timeout = delivery.deadline - self.simulation.clock.now()
        run = Run(delivery.id, delivery.token, move, member.process, now, timeout)
        self._begin(member, run)
        try:
            return await self.hands.work(run, job, delivery)
        except asyncio.CancelledError:
            if run.how == "runs":
                run.how = "told"
                run.told.append(self.simulation.now)
            raise
        except BaseException:
            if run.how == "runs":  # the store did not answer it
                run.how = "failed"
            raise
        finally:
            self._finish(member, run)

    def _begin(self, member: Member, run: Run) -> None:
        books, name = self.books, member.process.name
        self._note(name, "runs", books.name(run.id), run.token, run.move)
        lease = books.leases[run.token]
        stall = resolve(books.policy_of[lease.life], books.policy).on_stall
        if lease.id not in books.changed and lease.counters.stalls > allowed_stalls(stall):
            books.blame(f"{name} runs {run.token}, which has stalled too often")
        if run.token in books.runs:
            books.blame(f"{name} runs {run.token} twice")
        if member.busy >= member.concurrency:
            books.blame(f"{name} runs {member.busy + 1} at once")
        for other in books.running[run.id]:
            if not self._is_excused(other, lease):
                books.blame(f"{books.name(run.id)} runs in {name} and in {other.process.name}")
        books.runs[run.token] = run
        books.running[run.id].append(run)
        member.running.append(run)

    def _finish(self, member: Member, run: Run) -> None:
        if not member.process.alive:
            return
        run.ended = self.simulation.now
        self.books.running[run.id].remove(run)
        member.running.remove(run)
        member.ended += 1
        self._note(member.process.name, "ran", self.books.name(run.id), run.token, run.how)
        lasted, held_up = run.ended - run.started, member.process.held_up_at >= run.started
        if run.how != "told" and not run.told and not held_up and lasted > run.timeout + 0.01:
            self.books.blame(f"{run.token} ran for {lasted:g} s, unhindered")
        lease = self.books.leases[run.token]
        heard = (run.told[0] if run.told else run.ended) + self.store_clock.offset
        late = heard - min(lease.until, lease.lapsed)
        if late > 0.01 and not held_up and not self.books.jumped_at > 0:
            self.books.blame(f"{run.token} ran on for {late:g} s when its lease had run out")

    def _is_excused(self, other: Run, lease: Leased) -> bool:
        """Whether somebody may still run a job that another one has been given."""
        if not other.process.alive or other.told:
            return True
        held_up = other.process.held_up_at >= other.started
        moved = self.books.jumped_at > 0 or other.id in self.books.cancelled
        return held_up or moved or self.books.leases[other.token].life != lease.life

    def _note(self, *what: Any) -> None:
        if not self.simulation.over:
            self.books.trace.append((round(self.simulation.now, 6), *what))


def allowed_stalls(strategy: bee.StallStrategy) -> float:
    """How often a job may take its worker down and run again."""
    if not isinstance(strategy, bee.Repeat):
        return 0
    return math.inf if strategy.times is None else strategy.times


_ACTS = (
    *("send", "send", "send", "send", "start", "start", "kill", "kill", "end", "stop", "cut"),
    *("jump", "cancel", "change", "pause"),
)
