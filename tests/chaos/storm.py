"""Worker processes under load, all that can be done to them and to their server, and the audit.

A storm is seeded, and bounded in time. The parent never works itself: it forks workers, a sender
and a line that breaks connections, and does the deeds. It talks to the server past that line.
"""

from __future__ import annotations

import asyncio
import math
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import bee_core as bee
from bee_core.trouble import LONGEST
from tests.chaos import stores
from tests.chaos.clocks import Clocks
from tests.chaos.ledger import Ledger, entries
from tests.chaos.line import Line
from tests.chaos.pool import Pool
from tests.chaos.report import Held, Report, account, judge
from tests.chaos.sending import CALLED, Load, send, send_on, until_empty
from tests.chaos.workers import connect, fork, fork_worker, start_worker
from tests.servers import free_port

_STEP = 0.02
_BREATH = 1.5
"""Seconds that a server is up before it is killed again: else nobody could ever be back at work."""
_PATIENCE = 60.0
"""Seconds for the last jobs to end, beside ten leases."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to be done."""

    jobs: int
    seconds: float
    """Over which deeds and jobs are spread."""
    kills: int = 0
    restarts: int = 0
    stops: int = 0
    breaks: int = 0
    jumps: int = 0
    processes: int = 16
    concurrency: int = 4
    lease: float = 2.0
    longest: float = 30.0
    """Milliseconds of a job."""
    history: bool = False
    """Whether every call is written down, to be judged by bee_core.testing.history."""
    seed: int = 0

    @property
    def only_kills(self) -> bool:
        """Whether a job that runs again can have no other reason."""
        return not (self.restarts or self.stops or self.breaks or self.jumps)

    @property
    def limit(self) -> float:
        """Seconds after which what was not done stays undone."""
        return 10 * self.seconds + 60

    def deeds(self, chance: random.Random) -> list[tuple[float, str, int]]:
        """When, what, and how many at once: workers die alone, and several at a time."""
        found: list[tuple[float, str, int]] = []
        left = self.kills
        while left:
            together = min(left, chance.choice([1, 1, 2, 3, max(1, self.processes // 3)]))
            found.append((chance.random(), "kill", together))
            left -= together
        found += [(chance.random(), "stop", 1) for _ in range(self.stops)]
        found += [(chance.random(), "restart", 1) for _ in range(self.restarts)]
        found += [(chance.random(), "jump", 1) for _ in range(self.jumps)]
        return sorted(found)


def run(store: str, plan: Plan, url: str | None = None) -> Report:
    """A storm on a server of its own; or on one that is there, which then is left alone."""
    with ExitStack() as stack:
        directory = Path(tempfile.mkdtemp(prefix="bee-chaos-"))
        stack.callback(shutil.rmtree, directory)
        clocks = None
        if plan.jumps:
            clocks = Clocks()
            stack.callback(clocks.end)
        server = None
        if url is None:
            prefix = clocks.server.prefix if clocks is not None else []
            server = stores.durable(store, free_port(), prefix)
            stack.callback(server.stop)
            url = server.url
        storm = Storm(plan, url, server, clocks, directory)
        stack.callback(storm.end)
        return storm.run()


class Storm:
    """One of them."""

    def __init__(
        self,
        plan: Plan,
        url: str,
        server: stores.Killable | None,
        clocks: Clocks | None,
        directory: Path,
    ) -> None:
        self._plan = plan
        self._url = url
        self._server = server
        self._clocks = clocks
        self._directory = directory
        self._chance = random.Random(plan.seed)
        self._ledger = Ledger(directory, 0)
        self._line: Line | None = None
        if plan.breaks:
            port = urlsplit(url).port
            assert port is not None, "there is no port to lead a line to"
            self._line = Line(port, directory, seed=plan.seed, longest=plan.lease)
        self._at_work = _through(url, self._line, plan.lease / 2)
        self._pool = Pool(self._start, self._is_up, plan.processes)
        self._sender = 0

    def run(self) -> Report:
        """Do it all, let it end, count."""
        plan, started = self._plan, time.monotonic()
        report = Report(
            plan.lease,
            kills=plan.kills,
            only_kills=plan.kills if plan.only_kills else 0,
            restarts=plan.restarts,
            stops=plan.stops,
            jumps=plan.jumps,
        )
        self._sender = self._fork_sender()
        for moment, deed, count in plan.deeds(self._chance):
            self._wait_until(started + moment * plan.seconds)
            if time.monotonic() > started + plan.limit:
                report.unfinished.append("not all could be done in time")
                break
            self._do(deed, count)
        until = max(started + plan.limit, time.monotonic() + _PATIENCE)
        self._wait_until(until, self._all_broken)
        os.kill(self._sender, signal.SIGTERM)
        self._wait_until(until, self._all_sent)
        report.unfinished += self._unfinished()
        self._calm()
        asyncio.run(until_empty(self._url, _PATIENCE + 10 * plan.lease))
        report.stuck = len(self._stuck())
        report.deserters = len(self._pool.deserters)
        self._pool.stop()
        held = asyncio.run(_held(self._url))
        if self._line is not None:
            report.faults_of_lines = self._line.happened()
        account(report, entries(self._directory), held, self._pool.killed)
        if plan.history:
            judge(report, self._directory, held)
        report.seconds = time.monotonic() - started
        return report

    def end(self) -> None:
        """Nothing of it is left."""
        self._pool.end()
        if self._sender:
            os.kill(self._sender, signal.SIGKILL)
            os.waitpid(self._sender, 0)
        if self._line is not None:
            self._line.end()
        self._ledger.close()

    # The deeds.

    def _do(self, deed: str, count: int) -> None:
        match deed:
            case "kill":
                self._pool.kill(self._chance, count)
            case "stop":
                self._pool.pause(self._chance, 2.5 * self._plan.lease)
            case "restart":
                self._restart()
            case "jump" if self._clocks is not None:
                self._clocks.jump(self._chance)
            case _:
                raise ValueError(deed)

    def _restart(self) -> None:
        assert self._server is not None, "the server is not ours to be killed"
        self._server.kill()
        time.sleep(self._chance.uniform(0.0, 0.3))
        self._server.start()
        self._ledger.write("back", "server")
        self._wait_until(time.monotonic() + _BREATH)

    def _calm(self) -> None:
        if self._line is not None:
            self._line.calm()
        if self._clocks is not None:
            self._clocks.calm()
        self._pool.wake_all()

    def _wait_until(self, until: float, over: Callable[[], bool] = lambda: False) -> None:
        while time.monotonic() < until and not over():
            self._pool.look()
            time.sleep(_STEP)

    # The workers and the sender.

    def _start(self) -> int:
        plan = self._plan
        start = partial(fork_worker, history=plan.history)
        if self._clocks is not None:
            start = partial(start_worker, self._clocks.workers.environment)
        where = self._at_work, self._directory
        return start(*where, concurrency=plan.concurrency, lease=plan.lease)

    def _is_up(self, pid: int) -> bool:
        return (self._directory / f"{pid}.ledger").exists()

    def _fork_sender(self) -> int:
        plan = self._plan
        load = Load(plan.jobs, plan.jobs / plan.seconds, plan.longest, plan.seed)
        return fork(lambda: send(self._at_work, self._directory, load, history=plan.history))

    def _all_sent(self) -> bool:
        if self._sender and os.waitpid(self._sender, os.WNOHANG)[0]:
            self._sender = 0
        return not self._sender

    def _all_broken(self) -> bool:
        if self._line is None:
            return True
        happened = self._line.happened()
        return happened.total() - happened["slow"] >= self._plan.breaks

    def _unfinished(self) -> list[str]:
        found = [] if self._all_sent() else ["not all jobs could be sent in time"]
        return found if self._all_broken() else [*found, "too few connections broke in time"]

    def _stuck(self) -> set[int]:
        """Who takes none of many jobs, now that all is well.

        One may still wait for the answer to a call that was cut, or back off after it. That has to
        be over in a while that is known, and then it must take some of another load.
        """
        idle = self._idle()
        if idle:
            time.sleep(self._plan.lease + LONGEST)
            idle &= self._idle()
        return idle

    def _idle(self) -> set[int]:
        """Who takes none of a load."""
        since = time.monotonic()
        asyncio.run(self._call_all())
        found = entries(self._directory)
        return self._pool.alive - {e.pid for e in found if e.what == "run" and e.at > since}

    async def _call_all(self) -> None:
        load = Load(CALLED * self._plan.processes, rate=math.inf, longest=100.0)
        history = self._plan.history
        async with connect(self._url, self._directory, history=history) as broker:
            await send_on(broker, self._ledger, load)
        await until_empty(self._url, _PATIENCE)


def _through(url: str, line: Line | None, deadline: float) -> str:
    """The URL for workers: through the line, and with a deadline that fits a short lease."""
    parts = urlsplit(url)
    if line is not None:
        user, at, _ = parts.netloc.rpartition("@")
        parts = parts._replace(netloc=f"{user}{at}127.0.0.1:{line.port}")
    options = f"deadline={deadline}" + (
        "&pool_size=2" if parts.scheme.startswith("postgres") else ""
    )
    query = f"{parts.query}&{options}" if parts.query else options
    return parts._replace(query=query).geturl()


async def _held(url: str) -> Held:
    async with bee.connect(url) as broker:
        return await Held.look(broker)
