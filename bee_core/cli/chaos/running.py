"""A run of chaos: workers of one's own program, killed and cut off, and the audit at the end."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import click
import msgspec

from bee_core.broker import Store
from bee_core.cli.chaos.audit import Audit, audit
from bee_core.cli.chaos.proxy import Fault, Proxy, some_fault
from bee_core.cli.chaos.server import Guard, stop
from bee_core.cli.chaos.watching import Watch
from bee_core.cli.common.policies import with_policy
from bee_core.cli.common.selecting import pages
from bee_core.cli.common.words import count
from bee_core.config import worker_variable
from bee_core.disposition import Archive
from bee_core.message import Draft
from bee_core.stored import State, Stored
from bee_core.strategy import Policy

_STEP = 0.1
_BATCH = 500
_UP = 30.0
"""Seconds for the workers to begin."""
_STOP = 60.0
"""Seconds for them to end."""
_NEWS = 5.0
"""Seconds between two words on what is left."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done."""

    target: str
    queues: tuple[str, ...]
    declared: frozenset[str]
    """All queues of the program: what handlers send may be in any of them."""
    schedules: int
    """Messages that stay in the queues, because they keep schedules."""
    seconds: float
    kills: int
    cuts: int
    cut_for: float
    faults: int
    processes: int
    patience: float


class Run:
    """One run. The store is asked directly, and the workers through a line that can be cut."""

    def __init__(
        self,
        plan: Plan,
        store: Store,
        url: str,
        directory: Path,
        guard: Guard,
        chance: random.Random,
        say: Callable[[str], None],
    ) -> None:
        self._plan = plan
        self._store = store
        self._url = url
        self._guard = guard
        self._chance = chance
        self._say = say
        self._events = directory / "events"
        self._watch = Watch(self._events)
        self._begun = time.monotonic()
        self._sent: set[tuple[str, str]] = set()
        self._is_calm = False
        self.killed = self.cut = self.broken = 0

    async def run(self, jobs: Sequence[tuple[str, Draft]]) -> Audit:
        """Send the jobs, break what can be broken, let it end, and count."""
        proxy, url = await self._line()
        worker = self._start(url)
        try:
            await self._until_working(worker)
            self._tell(f"processes {', '.join(map(str, sorted(self._watch.processes)))} work")
            await self._all_at_once(jobs, proxy, worker)
            self._is_calm = True
            await self._until_empty()
        finally:
            if await asyncio.to_thread(stop, worker, _STOP) is None:
                self._tell("the workers did not stop when they were told to, and were killed")
            if proxy is not None:
                await proxy.cut()
        self._watch.look()
        return audit(self._sent, await self._found(), self._watch.deleted)

    async def _all_at_once(
        self,
        jobs: Sequence[tuple[str, Draft]],
        proxy: Proxy | None,
        worker: subprocess.Popen[bytes],
    ) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._send(jobs))
                group.create_task(self._break(proxy))
                group.create_task(self._keep_looking(worker))
        except BaseExceptionGroup as errors:  # the first is what went wrong
            raise errors.exceptions[0] from None

    @property
    def said(self) -> str:
        """The last words of the workers."""
        return self._guard.said("worker")

    # The workers.

    async def _line(self) -> tuple[Proxy | None, str]:
        place = cuttable(self._url)
        if place is None or not (self._plan.cuts or self._plan.faults):
            return None, self._url
        proxy = Proxy(*place, fate=self._fate, tell=self._break_one)
        await proxy.start()
        parts = urlsplit(self._url)
        user, at, _ = parts.netloc.rpartition("@")
        return proxy, parts._replace(netloc=f"{user}{at}127.0.0.1:{proxy.port}").geturl()

    def _start(self, url: str) -> subprocess.Popen[bytes]:
        plan = self._plan
        words = [plan.target, "--queues", ",".join(plan.queues)]
        words += ["--processes", str(plan.processes), "--events", str(self._events)]
        # Not that of the settings: it may be the sign of life of a worker that is real.
        words += ["--heartbeat-file", str(self._events.with_name("heartbeat"))]
        command = [sys.executable, "-P", "-m", "bee_core.cli", "worker", *words]
        where = dict.fromkeys(("BEE_URL", worker_variable("url")), url)  # not for `ps`
        return self._guard.start([*command, "--log-level", "warning"], "worker", **where)

    async def _until_working(self, worker: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _UP
        while not self._watch.working:
            if worker.poll() is not None or time.monotonic() > deadline:
                raise click.ClickException(f"the workers do not start:\n{self.said}")
            await asyncio.sleep(_STEP)
            self._watch.look()
        self._begun = time.monotonic()

    async def _keep_looking(self, worker: subprocess.Popen[bytes]) -> None:
        end = self._begun + self._plan.seconds
        while time.monotonic() < end:
            await asyncio.sleep(_STEP)
            self._watch.look()
            if worker.poll() is not None:
                raise click.ClickException(f"the workers have ended:\n{self.said}")

    # The jobs.

    async def _send(self, jobs: Sequence[tuple[str, Draft]]) -> None:
        """Bit by bit, so that there is something to do for most of the time."""
        span = 0.8 * self._plan.seconds
        done = 0
        while done < len(jobs):
            part = min(1.0, (time.monotonic() - self._begun + _STEP) / span) if span else 1.0
            until = min(round(part * len(jobs)), done + _BATCH)
            await self._send_some(jobs[done:until])
            done = until
            await asyncio.sleep(_STEP if part < 1.0 else 0)

    async def _send_some(self, jobs: Sequence[tuple[str, Draft]]) -> None:
        for queue in self._plan.queues:
            drafts = [kept(draft) for name, draft in jobs if name == queue]
            if drafts:
                await self._store.send(queue, drafts)
                self._sent |= {(queue, draft.id) for draft in drafts}

    async def _until_empty(self) -> None:
        deadline = time.monotonic() + self._plan.patience
        self._tell(f"{len(self._sent)} jobs are sent; the last ones may end")
        news = 0.0
        while True:
            every = [await self._store.stats(queue) for queue in self._plan.queues]
            left = sum(stats.live for stats in every) - self._plan.schedules
            if left <= 0 or time.monotonic() > deadline:
                return
            if time.monotonic() > news:
                held = sum(stats.leased for stats in every)
                self._tell(f"{left} jobs are left, {held} of them held")
                news = time.monotonic() + _NEWS
            await asyncio.sleep(_STEP)

    async def _found(self) -> dict[tuple[str, str], Stored]:
        """All that the store holds; of one id, the live one."""
        found: dict[tuple[str, str], Stored] = {}
        states = [State.ARCHIVED, State.BLOCKED, State.LEASED, State.DELAYED, State.READY]
        for queue in self._plan.queues:
            for state in states:
                async for page in pages(self._store, queue, state):
                    for stored in page:
                        if state is not State.ARCHIVED or (queue, stored.id) not in found:
                            found[queue, stored.id] = stored
        return found

    # The deeds.

    async def _break(self, proxy: Proxy | None) -> None:
        plan, chance = self._plan, self._chance
        deeds = [(chance.uniform(0.05, 0.9), "kill") for _ in range(plan.kills)]
        if proxy is not None:
            deeds += [(chance.uniform(0.1, 0.8), "cut") for _ in range(plan.cuts)]
        for moment, deed in sorted(deeds):
            await asyncio.sleep(self._begun + moment * plan.seconds - time.monotonic())
            if deed == "kill":
                await self._kill()
            elif proxy is not None:
                await self._cut(proxy)

    def _fate(self) -> Fault | None:
        """What becomes of a new connection."""
        enough = self._is_calm or self.broken >= self._plan.faults
        return None if enough else some_fault(self._chance, longest=self._plan.cut_for)

    def _break_one(self, fault: Fault) -> None:
        self.broken += 1
        way = "on the way there" if fault.upwards else "on the way back"
        self._tell(f"a connection is {fault.kind} after {fault.after} bytes {way}")

    async def _kill(self) -> None:
        self._watch.look()
        held = dict.fromkeys(sorted(self._watch.processes), 0)
        for queue in self._plan.queues:
            for worker in await self._store.workers(queue):
                if (pid := _pid(worker.name)) in held:
                    held[pid] += worker.leases
        # Who holds something is killed rather than who is idle: that is the point of it.
        victims = [pid for pid, jobs in held.items() if jobs] or list(held)
        if not victims:
            self._tell("there is no process to kill just now")
            return
        victim = self._chance.choice(victims)
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
            self.killed += 1
            self._tell(f"killed process {victim} while it held {count(held[victim], 'job')}")
        self._watch.processes.discard(victim)

    async def _cut(self, proxy: Proxy) -> None:
        connections = await proxy.cut()
        self.cut += 1
        self._tell(f"cut {connections} connections to the broker, for {self._plan.cut_for:g} s")
        await asyncio.sleep(self._plan.cut_for)
        await proxy.start()

    def _tell(self, text: str) -> None:
        self._say(f"{time.monotonic() - self._begun:6.1f} s  {text}")


def _pid(holder: str) -> int:
    """Of a worker, by its name: host, process, and something of its own."""
    parts = holder.rsplit(":", 2)
    return int(parts[1]) if len(parts) == 3 and parts[1].isdigit() else 0


def cuttable(url: str) -> tuple[str, int] | None:
    """Where the server is, if a line to it can be led through here; None for sockets, TLS, many."""
    parts = urlsplit(url)
    ports = {"redis": 6379, "postgresql": 5432, "postgres": 5432}
    if parts.scheme not in ports or not parts.hostname or "," in parts.netloc:
        return None
    if "host=" in parts.query:
        return None
    return parts.hostname, parts.port or ports[parts.scheme]


def kept(draft: Draft) -> Draft:
    """The same, but archived when it has succeeded: so the store itself can be asked for it."""
    headers = with_policy(draft.headers, Policy(on_success=Archive()))
    return msgspec.structs.replace(draft, headers=headers)
