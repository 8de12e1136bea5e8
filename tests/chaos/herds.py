"""SIGTERM, SIGKILL and SIGSTOP for the processes of a hive under load, and the audit.

    python -m tests.chaos.herds --store valkey --terms 1000 --kills 500
    python -m tests.chaos.herds --store pg --stops 100

The processes are those of `bee worker --processes`: a supervisor starts them, and replaces each one
that was killed. Each is a hive of two queues. The store in memory has none to kill: there it is
hives in one process, each of which is stopped, or stopped dead.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Protocol

import bee_core as bee
from bee_core.events import ProcessEnded, WorkerStarted
from bee_core.service.supervisor import Pauses, Supervisor
from bee_core.service.wire import Told
from bee_memory import MemoryBroker
from tests.chaos import herd_program, stores
from tests.chaos.herd_program import LEASE, QUEUES, Work
from tests.chaos.ledger import Audit, Entry, Ledger, entries
from tests.chaos.verdict import tell

NAMES = ("memory", *stores.NAMES)
_RATE = 60
"""Jobs a second, for each queue."""
_SLACK = 1.0
"""Seconds within which another one must have taken over what is free."""
_NEVER = 9e9
_AT_ONCE = Pauses(first=0.02, longest=0.02)


class Herd(Protocol):
    """Some that work, to be told to stop, or not to be told."""

    @property
    def up(self) -> set[int]:
        """The numbers of those that take jobs."""
        ...

    def signal(self, number: int, what: signal.Signals) -> None: ...

    async def stop(self) -> None: ...


class Processes:
    """The processes of a supervisor, by pid."""

    def __init__(self, url: str, directory: Path, count: int) -> None:
        os.environ |= {herd_program.URL: url, herd_program.DIRECTORY: str(directory)}
        self._queues: dict[int, int] = {}
        self._supervisor = Supervisor(
            lambda number, fd: [
                *(sys.executable, "-m", "bee_core.cli", "worker", "tests.chaos.herd_program:hive"),
                *("--log-level", "error", "--supervised", f"{fd}:{number}:tells"),
            ],
            count,
            listeners=(self._hear,),
            pauses=_AT_ONCE,
        )
        self._running = asyncio.create_task(self._supervisor.run())
        self._told: set[int] = set()

    @property
    def up(self) -> set[int]:
        return {pid for pid, n in self._queues.items() if n == len(QUEUES)} - self._told

    def signal(self, number: int, what: signal.Signals) -> None:
        if what in (signal.SIGTERM, signal.SIGKILL):
            self._told.add(number)
        os.kill(number, what)

    async def stop(self) -> None:
        self._supervisor.stop()
        await self._running
        for name in (herd_program.URL, herd_program.DIRECTORY):
            os.environ.pop(name, None)

    def _hear(self, told: Told) -> None:
        match told.event:
            case WorkerStarted():
                self._queues[told.pid] = self._queues.get(told.pid, 0) + 1
            case ProcessEnded(pid=pid):  # its number may be another one's soon
                self._queues.pop(pid, None)
                self._told.discard(pid)


class Tasks:
    """Hives in this process, by a number of their own."""

    def __init__(self, directory: Path, count: int) -> None:
        self.broker = MemoryBroker()
        self._directory = directory
        self._hives: dict[int, tuple[bee.Hive, asyncio.Task[None]]] = {}
        self._next = 0
        self._stopping = False
        for _ in range(count):
            self._start()

    @property
    def up(self) -> set[int]:
        return {number for number, (hive, _) in self._hives.items() if not hive.stopping}

    def signal(self, number: int, what: signal.Signals) -> None:
        hive, _ = self._hives[number]
        if what is signal.SIGKILL:
            hive.kill()
        else:
            hive.stop()

    async def stop(self) -> None:
        self._stopping = True
        for hive, task in list(self._hives.values()):
            hive.stop()
            await task

    def _start(self) -> None:
        self._next += 1
        number = self._next
        hive = herd_program.make_hive(Ledger(self._directory, number), broker=self.broker)
        task = asyncio.create_task(hive.run())
        self._hives[number] = hive, task
        task.add_done_callback(lambda task: self._ended(number))

    def _ended(self, number: int) -> None:
        del self._hives[number]
        if not self._stopping:
            self._start()


class Delays(NamedTuple):
    """Seconds until jobs were run again."""

    seconds: list[float]
    late: list[float]
    """Those that took too long."""
    excused: int
    """Others that did, because who had taken them over was killed before it ran them."""

    def with_late(self, seconds: float, excused: bool) -> Delays:
        if excused:
            return self._replace(excused=self.excused + 1)
        return self._replace(late=[*self.late, seconds])

    def __str__(self) -> str:
        if not self.seconds:
            return "0"
        ordered = sorted(self.seconds)
        middle, most = ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]
        times = f"after {middle:.2f} s (median), {most:.2f} s (99 %), {ordered[-1]:.2f} s (last)"
        more = f"; {self.excused} met another kill" if self.excused else ""
        return f"{len(ordered)}, run again {times}{more}"


@dataclass
class Report:
    """The outcome of a run."""

    audit: Audit
    entries: list[Entry]
    signalled: dict[signal.Signals, list[tuple[int, float]]]
    """What was sent, to whom and when."""
    live: int
    archived: int
    seconds: float

    @cached_property
    def takeovers(self) -> Delays:
        """From a release to the next run of that job. It may be written down after that."""
        released = [entry for entry in self.entries if entry.what == "released"]
        return self._delays([(e.at, max(e.at, self._next_run(e))) for e in released], _SLACK)

    @cached_property
    def redeliveries(self) -> Delays:
        """From a kill to the next run of each job that was running there."""
        ended = {(e.id, e.token) for e in self.entries if e.what in ("settled", "released", "lost")}
        found = []
        for entry in self.entries:
            if entry.what == "run" and (entry.id, entry.token) not in ended:
                killed = [at for pid, at in self._kills if pid == entry.pid and at >= entry.at]
                if killed and self._next_run(entry) < _NEVER:  # else it was settled, unheard
                    found.append((min(killed), self._next_run(entry)))
        return self._delays(found, LEASE + _SLACK)

    def _delays(self, waits: list[tuple[float, float]], most: float) -> Delays:
        """How long each took. One who took it over may have been killed before it ran it."""
        delays = Delays([end - start for start, end in waits], [], 0)
        for start, end in waits:
            if end - start > most:
                last = max((at for _, at in self._kills if start < at < end), default=start)
                excused = last > start and end - last <= LEASE + _SLACK
                delays = delays.with_late(end - start, excused)
        return delays

    @property
    def _kills(self) -> list[tuple[int, float]]:
        return self.signalled.get(signal.SIGKILL, [])

    @cached_property
    def _runs(self) -> dict[str, dict[int, float]]:
        """By id and token: when each began."""
        runs: dict[str, dict[int, float]] = {}
        for entry in self.entries:
            if entry.what == "run":
                runs.setdefault(entry.id, {})[entry.token] = entry.at
        return runs

    def _next_run(self, entry: Entry) -> float:
        """When the job was run again after that."""
        later = [token for token in self._runs.get(entry.id, {}) if token > entry.token]
        return self._runs[entry.id][min(later)] if later else _NEVER

    @property
    def of_zombies(self) -> set[str]:
        """Jobs that were settled by somebody else than the last one who ran them."""
        last = {id: max(run.token for run in runs) for id, runs in self.audit.runs.items()}
        return {e.id for e in self.entries if e.what == "settled" and last.get(e.id) != e.token}

    @property
    def faults(self) -> list[str]:
        """What must not be. Empty after a good run."""
        found = []
        if self.audit.lost:
            found.append(f"{len(self.audit.lost)} jobs were lost")
        if self.live or self.archived:
            found.append(f"{self.live} jobs are left, {self.archived} are archived")
        if self.audit.settled_twice:
            found.append(f"{len(self.audit.settled_twice)} jobs were settled twice")
        if self.of_zombies:
            found.append(f"{len(self.of_zombies)} jobs were settled by a zombie")
        if errors := {entry.id for entry in self.entries if entry.what == "error"}:
            found.append(f"{len(errors)} jobs have counted an error")
        for late in self.takeovers.late:
            found.append(f"a job that was released was run {late:.2f} s later")
        for late in self.redeliveries.late:
            found.append(f"a job whose process was killed was run {late:.2f} s later")
        return found

    def lines(self) -> list[str]:
        """The report as a small table."""
        names = {"TERM": signal.SIGTERM, "KILL": signal.SIGKILL, "STOP": signal.SIGSTOP}
        sent = ", ".join(f"{len(self.signalled.get(s, []))} {name}" for name, s in names.items())
        in_vain = sum(entry.what == "lost" for entry in self.entries)
        return [
            f"jobs sent          {len(self.audit.sent)}",
            f"signals            {sent}",
            f"lost               {len(self.audit.lost)}",
            f"settled twice      {len(self.audit.settled_twice)}",
            f"settled by zombies {len(self.of_zombies)} (and {in_vain} tried in vain)",
            f"released           {self.takeovers}",
            f"killed             {self.redeliveries}",
            f"run more than once {self.audit.extra_runs}",
            f"seconds            {self.seconds:.0f}",
        ]


@dataclass
class Plan:
    """What is to be done to the herd."""

    terms: int = 0
    kills: int = 0
    stops: int = 0
    processes: int = 6
    seed: int = 0
    pause: float = 0.3
    """Seconds between two signals, on average."""
    least: int = field(default=3)
    """As many are left alone, so that somebody can take over."""


async def run_on(herd: Herd, directory: Path, plan: Plan, broker: bee.Store) -> Report:
    """Send, signal, wait for the end, audit."""
    started = time.monotonic()
    sending = asyncio.Event()
    producer = asyncio.create_task(_produce(broker, directory, sending, plan.seed))
    try:
        signalled = await _signal(herd, plan)
    finally:
        sending.set()
        await producer
    live, archived = await _until_empty(broker, patience=60 + 10 * LEASE)
    await herd.stop()
    return Report(
        Audit.read(directory),
        entries(directory),
        signalled,
        live,
        archived,
        time.monotonic() - started,
    )


async def _signal(herd: Herd, plan: Plan) -> dict[signal.Signals, list[tuple[int, float]]]:
    chance = random.Random(plan.seed)
    todo = [signal.SIGTERM] * plan.terms + [signal.SIGKILL] * plan.kills
    todo += [signal.SIGSTOP] * plan.stops
    chance.shuffle(todo)
    done: dict[signal.Signals, list[tuple[int, float]]] = {}
    paused: dict[int, asyncio.Task[None]] = {}
    for what in todo:
        await asyncio.sleep(chance.uniform(0, 2 * plan.pause))
        while len(ready := sorted(herd.up - paused.keys())) <= plan.least:
            await asyncio.sleep(0.01)
        number = chance.choice(ready)
        done.setdefault(what, []).append((number, time.monotonic()))
        herd.signal(number, what)
        if what is signal.SIGSTOP:
            paused[number] = asyncio.create_task(_wake(herd, number, paused.pop))
    await asyncio.gather(*paused.values())
    return done


async def _wake(herd: Herd, number: int, after: Callable[[int], object]) -> None:
    """Let it go on when two leases have passed."""
    await asyncio.sleep(2 * LEASE)
    herd.signal(number, signal.SIGCONT)
    after(number)


async def _produce(broker: bee.Store, directory: Path, end: asyncio.Event, seed: int) -> None:
    """Send at a steady rate: many short jobs, and some that outlast the grace, or a lease."""
    chance, ledger = random.Random(seed), Ledger(directory, 0)
    queues = [bee.Queue(broker, name, Work) for name in QUEUES]
    while not end.is_set():
        for queue in queues:
            works = [Work(_length(chance)) for _ in range(_RATE // 10)]
            for ticket in await queue.send_many(works):
                ledger.write("sent", ticket.id)
        await asyncio.sleep(0.1)


def _length(chance: random.Random) -> float:
    return chance.uniform(1000, 2500) if chance.random() < 0.1 else chance.uniform(0, 100)


async def _until_empty(broker: bee.Store, patience: float) -> tuple[int, int]:
    deadline = time.monotonic() + patience
    while True:
        stats = [await broker.stats(name) for name in QUEUES]
        if not any(s.live for s in stats) or time.monotonic() > deadline:
            return sum(s.live for s in stats), sum(sum(s.archived.values()) for s in stats)
        await asyncio.sleep(0.1)


def run(store: str, plan: Plan) -> Report:
    """A whole run, on a server of its own."""
    directory = Path(tempfile.mkdtemp(prefix="bee-herd-"))
    server = None if store == "memory" else stores.durable(store)

    async def go() -> Report:
        if server is None:
            tasks = Tasks(directory, plan.processes)
            return await run_on(tasks, directory, plan, tasks.broker)
        async with bee.connect(server.url) as broker:
            herd = Processes(server.url, directory, plan.processes)
            return await run_on(herd, directory, plan, broker)

    try:
        return asyncio.run(go())
    finally:
        if server is not None:
            server.stop()
        shutil.rmtree(directory)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--store", choices=NAMES, default="valkey")
    parser.add_argument("--terms", type=int, default=0)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--stops", type=int, default=0)
    parser.add_argument("--processes", type=int, default=6)
    parser.add_argument("--pause", type=float, default=0.3, help="seconds between two signals")
    parser.add_argument("--seed", type=int, default=0)
    options = vars(parser.parse_args())
    store = options.pop("store")
    report = run(store, Plan(**options))
    return tell(report)


if __name__ == "__main__":
    sys.exit(main())
