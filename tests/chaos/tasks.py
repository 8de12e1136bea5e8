"""The storm in memory: workers are tasks of one process, stopped dead as a crash would.

There is no server to be killed and no line to be cut. A break is a call whose answer gets lost, or
one that does not arrive.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path

import bee_core as bee
from bee_core.errors import BrokerUnavailable
from bee_core.testing import FaultyBroker
from bee_memory import MemoryBroker
from tests.chaos.ledger import Ledger, entries
from tests.chaos.report import Held, Report, account
from tests.chaos.sending import CALLED, Load, send_on
from tests.chaos.storm import Plan
from tests.chaos.workers import QUEUE, Jobs, make_worker

_SENDER = 0
_VERBS = ("send", "lease", "settle", "extend")


def run(plan: Plan) -> Report:
    """A storm of kills and breaks."""
    directory = Path(tempfile.mkdtemp(prefix="bee-chaos-"))
    try:
        return asyncio.run(_Storm(plan, directory).run())
    finally:
        shutil.rmtree(directory)


class _Storm:
    def __init__(self, plan: Plan, directory: Path) -> None:
        self._plan = plan
        self._directory = directory
        self._chance = random.Random(plan.seed)
        self._broker = FaultyBroker(MemoryBroker())
        self._workers: dict[int, tuple[bee.Worker[Jobs], asyncio.Task[None]]] = {}
        self._killed: dict[int, float] = {}
        self._breaks: Counter[str] = Counter()
        self._next = _SENDER + 1

    async def run(self) -> Report:
        plan, started = self._plan, time.monotonic()
        ledger = Ledger(self._directory, _SENDER)
        for _ in range(plan.processes):
            self._start()
        load = Load(plan.jobs, plan.jobs / plan.seconds, plan.longest, plan.seed)
        sending = asyncio.create_task(send_on(self._broker, ledger, load))
        breaks = [(self._chance.random(), "break", 1) for _ in range(plan.breaks)]
        for moment, deed, count in sorted(plan.deeds(self._chance) + breaks):
            await asyncio.sleep(max(0.0, started + moment * plan.seconds - time.monotonic()))
            if deed == "kill":
                await self._kill(count)
            else:
                self._break()
        await sending
        await self._until_empty()
        since = time.monotonic()
        await send_on(self._broker, ledger, Load(CALLED * plan.processes, 1e6, 100.0))
        await self._until_empty()
        alive = set(self._workers)
        await self._stop()
        ledger.close()
        found = entries(self._directory)
        report = Report(
            plan.lease,
            kills=plan.kills,
            only_kills=plan.kills if plan.only_kills else 0,
            faults_of_lines=self._breaks,
            stuck=len(alive - {e.pid for e in found if e.what == "run" and e.at > since}),
        )
        account(report, found, await Held.look(self._broker), self._killed)
        report.seconds = time.monotonic() - started
        return report

    def _start(self) -> None:
        number, self._next = self._next, self._next + 1
        ledger = Ledger(self._directory, number)
        plan = self._plan
        worker = make_worker(self._broker, ledger, concurrency=plan.concurrency, lease=plan.lease)
        task = asyncio.create_task(worker.run())
        task.add_done_callback(lambda task: ledger.close())
        self._workers[number] = worker, task

    async def _kill(self, count: int) -> None:
        victims = self._chance.sample(sorted(self._workers), count)
        for number in victims:
            self._killed[number] = time.monotonic()
            self._workers[number][0].kill()
        for number in victims:
            await self._workers.pop(number)[1]
            self._start()

    def _break(self) -> None:
        verb = self._chance.choice(_VERBS)
        if self._chance.random() < 0.5:
            self._broker.lose_answer(verb)
            self._breaks["answer lost"] += 1
        else:
            self._broker.fail(verb, BrokerUnavailable("cut off"))
            self._breaks["call lost"] += 1

    async def _until_empty(self) -> None:
        deadline = time.monotonic() + 60 + 10 * self._plan.lease
        while (await self._broker.stats(QUEUE)).live and time.monotonic() < deadline:
            await asyncio.sleep(0.1)

    async def _stop(self) -> None:
        for worker, _ in self._workers.values():
            worker.stop()
        for _, task in self._workers.values():
            await task
