"""Random jobs on workers that are killed at random, and six promises that must hold all the same.

    python -m tests.chaos.fuzz --store pg --seconds 180 --processes 4

1 exclusion    no two runs of one id, or of one key, at the same time
2 once         a run that was confirmed as done is never followed by another of the same message
3 time         nothing is leased before it is due, by the store's clock
4 order        of what is due, nothing that came later is leased first, give or take a moment
5 failures     every job that has failed for good is reported to the failure handler
6 progress     nothing that is due waits for long, and in the end nothing is left

On `memory` the workers are tasks of one process, killed as a crash would; else they are processes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import bee_core as bee
from bee_core.broker import Store
from bee_core.events import AttemptSettled, Event
from bee_core.outcome import Succeeded
from bee_memory import MemoryBroker
from tests.chaos import stores

QUEUE = "fuzz"
LEASE = 3.0
KEYS = [f"key-{n}" for n in range(8)]
SHARED = [f"shared-{n}" for n in range(40)]
TOLERANCE = 0.5
"""Seconds by which two leasers may be out of order: one has taken, and not yet said so."""
LONGEST_WAIT = 30.0
"""Seconds for which something due may wait: if it has a key, until some leases have run out."""
LONGEST_WITHOUT_KEY = 10.0
"""The same for what has no key, and need not wait for anybody."""
POLICY = bee.Policy(
    timeout=2,
    on_error=bee.Repeat(2),
    on_timeout=bee.Repeat(1),
    on_stall=bee.Repeat(None),
    backoff=bee.Backoff(min=0.1, max=1),
)

Fate = Literal["done", "error", "never", "timeout"]


class Work(bee.Job):
    """Takes `seconds`, then meets its fate: `error` fails once, `never` each time."""

    fate: Fate
    seconds: float
    delay: float
    fresh: bool
    key: str | None


class Diary:
    """What one worker has seen, a line of JSON each; there or not, whenever it is killed."""

    def __init__(self, directory: Path, name: str) -> None:
        path = directory / f"{name}.diary"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._name = name

    def write(self, what: str, **facts: Any) -> None:
        entry = {"what": what, "who": self._name, "at": time.time(), **facts}
        os.write(self._file, json.dumps(entry).encode() + b"\n")


def make_worker(broker: Store, diary: Diary) -> bee.Worker[Work]:
    """A worker that writes down all it does."""
    hive = bee.Hive(broker=broker)
    queue = hive.queue(QUEUE, Work, policy=POLICY)

    @queue.handler
    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        lease = delivery._lease
        facts = {"id": delivery.id, "token": delivery.token, "sent_at": delivery.sent_at}
        first = job.fresh and delivery.counters.deliveries == 1
        due = delivery.sent_at + job.delay if first else None
        diary.write("start", **facts, key=lease.key, leased_at=lease.leased_at, due=due)
        try:
            await asyncio.sleep(job.seconds if job.fate != "timeout" else 60)
            if job.fate == "never" or (job.fate == "error" and delivery.counters.errors == 0):
                raise RuntimeError("as was its fate")
        finally:
            diary.write("end", **facts)

    @queue.on_failure
    async def failed(failure: bee.Failure[Work]) -> None:
        diary.write("failure", id=failure.id)

    def observe(event: Event) -> None:
        if isinstance(event, AttemptSettled):
            done = isinstance(event.outcome, Succeeded)
            diary.write("settled", id=event.id, token=event.token, done=done)

    return bee.Worker(
        broker,
        QUEUE,
        Work,
        handlers=queue.handlers,
        policy=POLICY,
        concurrency=10,
        lease=LEASE,
        poll=0.2,
        observers=(observe,),
    )


class Crew(Protocol):
    """Workers that can be killed."""

    async def hire(self) -> str: ...

    async def kill(self, name: str) -> None: ...

    async def dismiss(self, name: str) -> None: ...


class Tasks:
    """Workers in this process."""

    def __init__(self, broker: Store, directory: Path) -> None:
        self._broker, self._directory = broker, directory
        self._running: dict[str, tuple[bee.Worker[Work], asyncio.Task[None]]] = {}
        self._count = 0

    async def hire(self) -> str:
        self._count += 1
        name = f"task-{self._count}"
        worker = make_worker(self._broker, Diary(self._directory, name))
        self._running[name] = worker, asyncio.create_task(worker.run())
        return name

    async def kill(self, name: str) -> None:
        worker, task = self._running.pop(name)
        worker.kill()
        await task

    async def dismiss(self, name: str) -> None:
        worker, task = self._running.pop(name)
        worker.stop()
        await task


class Processes:
    """Workers in processes of their own."""

    def __init__(self, url: str, directory: Path) -> None:
        self._url, self._directory = url, directory
        self._processes: dict[str, asyncio.subprocess.Process] = {}

    async def hire(self) -> str:
        arguments = (sys.executable, "-m", "tests.chaos.fuzz", "--work", self._url)
        process = await asyncio.create_subprocess_exec(*arguments, str(self._directory))
        self._processes[str(process.pid)] = process
        return str(process.pid)

    async def kill(self, name: str) -> None:
        process = self._processes.pop(name)
        process.kill()
        await process.wait()

    async def dismiss(self, name: str) -> None:
        process = self._processes.pop(name)
        process.terminate()
        await process.wait()


async def work(url: str, directory: Path) -> None:
    """The life of a worker process."""
    async with bee.connect(url) as broker:
        worker = make_worker(broker, Diary(directory, str(os.getpid())))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
        await worker.run()


@dataclass
class Run:
    """One run: what was sent, who was killed when, what the diaries say."""

    seconds: float
    sent: dict[str, Work] = field(default_factory=dict)
    """The fresh ones, by id."""
    others: int = 0
    killed: dict[str, float] = field(default_factory=dict)
    longest_wait: float = 0.0
    left: int = 0
    cancelled: set[str] = field(default_factory=set)
    entries: list[dict[str, Any]] = field(default_factory=list)

    def lines(self) -> list[str]:
        """The run as a small table."""
        starts = sum(entry["what"] == "start" for entry in self.entries)
        return [
            f"jobs sent        {len(self.sent)} and {self.others} to shared ids",
            f"kills            {len(self.killed)}",
            f"runs             {starts}",
            f"longest wait     {self.longest_wait:.1f} s",
            f"left in the end  {self.left}",
        ]

    def faults(self) -> list[str]:
        """Every promise that was broken."""
        self.entries.sort(key=lambda entry: entry["at"])
        return [
            *self._overlaps("id"),
            *self._overlaps("key"),
            *self._run_again(),
            *self._too_early(),
            *self._out_of_order(),
            *self._unreported(),
            *self._stood_still(),
        ]

    def _all(self, what: str) -> Iterator[dict[str, Any]]:
        return (entry for entry in self.entries if entry["what"] == what)

    def _overlaps(self, by: str) -> Iterator[str]:
        ends = {(end["who"], end["token"]): end["at"] for end in self._all("end")}
        last: dict[str, tuple[float, dict[str, Any]]] = {}
        for start in self._all("start"):
            name = start[by]
            if name is None:
                continue
            over = ends.get((start["who"], start["token"]), self.killed.get(start["who"], 0.0))
            if name in last and last[name][0] > start["at"]:
                yield f"1 exclusion: {by} {name} ran twice at once: {last[name][1]} and {start}"
            last[name] = max(last.get(name, (0.0, start)), (over, start), key=lambda one: one[0])

    def _run_again(self) -> Iterator[str]:
        messages = {(start["id"], start["token"]): start["sent_at"] for start in self._all("start")}
        done: dict[tuple[str, float], int] = {}
        for settled in self._all("settled"):
            sent_at = messages.get((settled["id"], settled["token"]))
            if settled["done"] and sent_at is not None:
                done[settled["id"], sent_at] = settled["token"]
        for start in self._all("start"):
            token = done.get((start["id"], start["sent_at"]))
            if token is not None and start["token"] > token:
                yield f"2 once: {start['id']} was done with token {token}, and ran again: {start}"

    def _too_early(self) -> Iterator[str]:
        for start in self._all("start"):
            if start["due"] is not None and start["leased_at"] < start["due"] - 0.001:
                yield f"3 time: {start}"

    def _out_of_order(self) -> Iterator[str]:
        firsts = [start for start in self._all("start") if start["due"] and not start["key"]]
        firsts.sort(key=lambda start: start["leased_at"])
        for later, start in enumerate(firsts):
            for other in firsts[later + 1 : later + 200]:
                was_due = start["leased_at"] - other["due"] > TOLERANCE
                comes_first = start["due"] - other["due"] > TOLERANCE
                comes_later = other["leased_at"] - start["leased_at"] > TOLERANCE
                if was_due and comes_first and comes_later:
                    yield f"4 order: {start} before {other}"

    def _unreported(self) -> Iterator[str]:
        reported = {entry["id"] for entry in self._all("failure")}
        ran = {start["id"] for start in self._all("start")}
        for id, job in self.sent.items():
            fails = job.fate in ("never", "timeout")
            if id in self.cancelled:
                continue
            if id not in ran:
                yield f"6 progress: {id} was sent, and never ran"
            elif fails and id not in reported:
                yield f"5 failures: {id} failed for good ({job.fate}), and nobody was told"
            elif not fails and id in reported:
                yield f"5 failures: {id} was reported, though its fate was {job.fate}"

    def _stood_still(self) -> Iterator[str]:
        if self.longest_wait > LONGEST_WAIT:
            yield f"6 progress: something due had to wait for {self.longest_wait:.1f} s"
        for start in self._all("start"):
            if start["due"] and not start["key"]:
                wait = start["leased_at"] - start["due"]
                if wait > LONGEST_WITHOUT_KEY:
                    yield f"6 progress: without a key, and waited for {wait:.1f} s: {start}"
        if self.left:
            yield f"6 progress: {self.left} jobs are left"


class Fuzz:
    """The run itself: sending, updating, cancelling, killing, watching."""

    def __init__(self, broker: Store, crew: Crew, *, seconds: float, seed: int) -> None:
        self._broker = broker
        self._queue = bee.Queue(broker, QUEUE, Work)
        self._crew = crew
        self._chance = random.Random(seed)
        self._until = time.monotonic() + seconds
        self.run = Run(seconds)

    async def go(self, processes: int) -> None:
        await self._broker.drop(QUEUE)
        alive = [await self._crew.hire() for _ in range(processes)]
        parts = [self._send(), self._meddle(), self._kill(alive), self._watch()]
        await asyncio.gather(*parts)
        deadline = time.monotonic() + 60
        while (stats := await self._broker.stats(QUEUE)).live and time.monotonic() < deadline:
            await asyncio.sleep(0.2)
        self.run.left = stats.live
        for name in alive:
            await self._crew.dismiss(name)

    def _going(self) -> bool:
        return time.monotonic() < self._until

    def _job(self, *, fresh: bool) -> Work:
        chance = self._chance
        fates: list[Fate] = ["done", "error", "never", "timeout"]
        [fate] = chance.choices(fates, [90, 6, 3.5, 0.5])
        delay = chance.choice([0.0, 0.0, 0.0, round(chance.uniform(0, 3), 3)])
        key = chance.choice(KEYS) if chance.random() < 0.25 else None
        return Work(fate, round(chance.uniform(0, 0.05), 3), delay, fresh, key)

    async def _send(self) -> None:
        """New jobs, each to be run once."""
        while self._going():
            jobs = [self._job(fresh=True) for _ in range(self._chance.randint(1, 5))]
            drafts = [self._queue.draft(job, delay=job.delay, key=job.key) for job in jobs]
            tickets = await self._queue.send_many(drafts)
            self.run.sent |= {t.id: job for t, job in zip(tickets, jobs, strict=True)}
            await asyncio.sleep(self._chance.uniform(0, 0.08))

    async def _meddle(self) -> None:
        """Jobs to ids that may be live: kept, updated, blocked, cancelled."""
        later, same = bee.Update(run_at="if_later"), bee.Update(payload=False)
        rules: list[bee.Keep | bee.Update] = [bee.Keep(), bee.Update(), later, same]
        while self._going():
            id, job = self._chance.choice(SHARED), self._job(fresh=False)
            rule = self._chance.choice(rules)
            await self._queue.send(job, id=id, delay=job.delay, key=job.key, if_taken=rule)
            self.run.others += 1
            if self._chance.random() < 0.05:
                await self._queue.cancel(self._chance.choice(SHARED), running=False)
            if self._chance.random() < 0.02 and self.run.sent:
                victim = self._chance.choice(list(self.run.sent)[-20:])
                if not await self._queue.cancel(victim, running=False):
                    self.run.cancelled.add(victim)
            await asyncio.sleep(self._chance.uniform(0, 0.1))

    async def _kill(self, alive: list[str]) -> None:
        while self._going():
            await asyncio.sleep(self._chance.uniform(0.2, 2))
            victim = alive.pop(self._chance.randrange(len(alive)))
            await self._crew.kill(victim)
            self.run.killed[victim] = time.time()
            alive.append(await self._crew.hire())

    async def _watch(self) -> None:
        while self._going():
            stats = await self._broker.stats(QUEUE)
            self.run.longest_wait = max(self.run.longest_wait, stats.oldest_due or 0.0)
            await asyncio.sleep(0.25)


async def fuzz(url: str, *, seconds: float, processes: int, seed: int = 0) -> Run:
    """One run on the store of that url."""
    directory = Path(tempfile.mkdtemp(prefix="bee-fuzz-"))
    try:
        broker = MemoryBroker() if url == "memory://" else bee.connect(url)
        async with broker:
            memory = isinstance(broker, MemoryBroker)
            crew: Crew = Tasks(broker, directory) if memory else Processes(url, directory)
            one = Fuzz(broker, crew, seconds=seconds, seed=seed)
            await one.go(processes)
        for path in directory.glob("*.diary"):
            lines = path.read_text().splitlines()
            one.run.entries += [json.loads(line) for line in lines]
        return one.run
    finally:
        shutil.rmtree(directory)


def run(store: str, *, seconds: float, processes: int, seed: int = 0) -> Run:
    """One run on a fresh store of that name."""
    if store == "memory":
        return asyncio.run(fuzz("memory://", seconds=seconds, processes=processes, seed=seed))
    server = stores.durable(store)
    try:
        return asyncio.run(fuzz(server.url, seconds=seconds, processes=processes, seed=seed))
    finally:
        server.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--store", choices=("memory", *stores.NAMES), default="valkey")
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", nargs=2, metavar=("URL", "DIRECTORY"), help="be a worker")
    options = parser.parse_args()
    if options.work:
        asyncio.run(work(options.work[0], Path(options.work[1])))
        return 0
    outcome = run(
        options.store, seconds=options.seconds, processes=options.processes, seed=options.seed
    )
    faults = outcome.faults()
    print("\n".join(outcome.lines()))
    for fault in faults[:20]:
        print(f"FAULT: {fault}")
    print(f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
