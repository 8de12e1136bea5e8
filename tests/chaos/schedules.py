"""A week of schedules in minutes, workers killed with -9 at random: is each instant ticked once?

    python -m tests.chaos.schedules --store pg --schedules 1000 --processes 8 --days 7 --seconds 240

The week is that of 28 March 2026, in which clocks are changed in Berlin, in Sydney and on Lord Howe
Island. What was sent is read from the store's archive, and compared with what somebody who looks at
the clock every minute would have written down.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from zoneinfo import ZoneInfo

import bee_core as bee
from bee_core.events import Event, ScheduleMissed
from bee_core.stored import State
from tests.chaos import stores
from tests.chaos.faster import InRealTime, Pace, faster
from tests.chaos.ledger import Ledger
from tests.chaos.verdict import tell
from tests.chaos.workers import QUEUE, Work, fork, stop_all

START = datetime(2026, 3, 28, 18, tzinfo=UTC)
ZONES = (
    "UTC",
    "Europe/Berlin",
    "Australia/Sydney",
    "Australia/Lord_Howe",
    "America/New_York",
    "Asia/Kolkata",
)
LEASE = 1.0
"""Real seconds. All that is taken over is taken over soon after."""
APART = 6.0
"""Real seconds between two instants of one schedule, at least."""
PATIENCE = 30.0
"""Real seconds for what is late at the end."""
POLICY = bee.Policy(on_success=bee.Archive(), on_stall=bee.Repeat(None))


@dataclass(frozen=True)
class Plan:
    """A schedule, in a form that needs no parser."""

    name: str
    every: float = 0.0
    minute: int = 0
    hours: tuple[int, ...] = ()
    star: str = ""
    """For the hour, instead of a list: then every time counts that a clock really shows."""
    tz: str = "UTC"

    @property
    def declared(self) -> bee.Schedule[Work]:
        job, late = Work(0), timedelta(days=30)
        if self.every:
            return bee.Schedule(self.name, job, every=self.every, late=late)
        cron = f"{self.minute} {self.star or ','.join(map(str, self.hours))} * * *"
        return bee.Schedule(self.name, job, cron=cron, tz=self.tz, late=late)

    def expected(self, end: datetime) -> dict[str, datetime]:
        """All its instants, by the id of the job."""
        found = self._multiples(end) if self.every else self._seen_on_the_clock(end)
        return {f"{self.name}@{one.replace(tzinfo=None).isoformat()}Z": one for one in found}

    def _multiples(self, end: datetime) -> list[datetime]:
        number = int(START.timestamp() // self.every) + 1
        found = []
        while number * self.every <= end.timestamp():
            found.append(datetime.fromtimestamp(number * self.every, UTC))
            number += 1
        return found

    def _seen_on_the_clock(self, end: datetime) -> list[datetime]:
        seen = watch(self.tz, end, fixed=not self.star)
        return [now for hour in self.hours for now in seen.get((hour, self.minute), [])]


@cache
def watch(tz: str, end: datetime, *, fixed: bool) -> dict[tuple[int, int], list[datetime]]:
    """When a clock in that zone shows which time, by looking at it every minute.

    Fixed times count once, and at once if the clock leaps over them.
    """
    seen: dict[tuple[int, int], list[datetime]] = {}
    zone, minute = ZoneInfo(tz), timedelta(minutes=1)
    furthest = START.astimezone(zone).replace(tzinfo=None)
    now = START + minute
    while now <= end:
        shown = now.astimezone(zone).replace(tzinfo=None)
        passed = [] if fixed else [shown]
        while fixed and furthest < shown:
            furthest += minute
            passed.append(furthest)
        for wall in passed:
            seen.setdefault((wall.hour, wall.minute), []).append(now)
        now += minute
    return seen


def make_plans(count: int, least: float, chance: random.Random) -> list[Plan]:
    """Of every kind; two instants of one are never closer together than `least`."""
    step = next(hours for hours in (6, 8, 12, 24) if (hours - 1) * 3600 >= least or hours == 24)
    plans = []
    for number in range(count):
        name, minute, tz = f"s{number}", chance.randrange(60), chance.choice(ZONES)
        kind = chance.random()
        if kind < 0.4:
            every = round(chance.uniform(least, 4 * least), chance.choice([0, 1]))
            plans.append(Plan(name, every=every))
        elif kind < 0.7:
            hours = tuple(range(0, 24, step))
            plans.append(Plan(name, minute=minute, hours=hours, star=f"*/{step}", tz=tz))
        else:  # most of them where clocks are changed
            hours = tuple(range(chance.randrange(1, 4), 24, step))
            plans.append(Plan(name, minute=minute, hours=hours, tz=tz))
    return plans


@dataclass
class Report:
    """The outcome of a run."""

    schedules: int
    kills: int
    expected: set[str]
    sent: Counter[str]
    """What was sent up to the end, by id."""
    stray: set[str]
    """What was sent and should not have been."""
    left: set[str]
    """The schedules that are still kept."""
    late: list[float]
    """Seconds by the store's clock from an instant to its job."""
    passed_over: int
    planned: bool
    speed: float

    @property
    def faults(self) -> list[str]:
        """What must not be. Empty after a good run."""
        found = []
        if not self.planned:
            found.append("the schedules were not planned before the clock began to run")
        if missing := self.expected - set(self.sent):
            found.append(f"{len(missing)} instants were not ticked, such as {min(missing)}")
        if twice := [id for id, times in self.sent.items() if times > 1]:
            found.append(f"{len(twice)} instants were ticked twice, such as {min(twice)}")
        if self.stray:
            found.append(f"{len(self.stray)} jobs belong to no instant, such as {min(self.stray)}")
        if len(self.left) != self.schedules:
            found.append(f"{self.schedules - len(self.left)} schedules are gone")
        if self.passed_over:
            found.append(f"{self.passed_over} times a worker came too late")
        return found

    def lines(self) -> list[str]:
        """The report as a small table."""
        once = sum(self.sent[id] == 1 for id in self.expected)
        cuts = statistics.quantiles(self.late, n=100) if len(self.late) > 1 else [0.0] * 99
        worst = max(self.late, default=0.0)
        return [
            f"schedules        {self.schedules}",
            f"speed            {self.speed:.0f} times",
            f"kill -9          {self.kills}",
            f"instants         {len(self.expected)}",
            f"ticked once      {once}",
            f"not ticked       {len(self.expected - set(self.sent))}",
            f"ticked twice     {sum(times > 1 for times in self.sent.values())}",
            f"late, median     {cuts[49] / self.speed:.3f} s of real time",
            f"late, 99 of 100  {cuts[98] / self.speed:.3f} s",
            f"late, worst      {worst / self.speed:.3f} s",
        ]


def run(
    store: str,
    *,
    schedules: int,
    processes: int,
    days: float,
    seconds: float,
    pause: float = 1.0,
    seed: int = 0,
) -> Report:
    """Run the week on a server of its own, killing a worker every `pause` seconds or so."""
    chance = random.Random(seed)
    length = timedelta(days=days)
    speed = length.total_seconds() / seconds
    plans = make_plans(schedules, APART * speed, chance)
    server = stores.durable(store)
    directory = Path(tempfile.mkdtemp(prefix="bee-chaos-"))
    end = START + length
    long_after = end + timedelta(seconds=2 * PATIENCE * speed)
    possible = {id: at for plan in plans for id, at in plan.expected(long_after).items()}
    expected = {id for id, at in possible.items() if at <= end}
    pace = Pace(START.timestamp(), time.time() + 5 + schedules / 100, speed)
    alive: set[int] = set()
    kills = 0
    try:
        with faster(server, pace):
            alive = {_fork(server.url, directory, plans, speed) for _ in range(processes)}
            planned = asyncio.run(_planned(server.url, schedules, pace))
            while time.time() < pace.begins + seconds:
                time.sleep(pause * chance.uniform(0.5, 1.5))
                victim = chance.choice(sorted(alive))
                os.kill(victim, signal.SIGKILL)
                os.waitpid(victim, 0)
                alive.remove(victim)
                kills += 1
                alive.add(_fork(server.url, directory, plans, speed))
            asyncio.run(_settled(server.url, len(expected)))
            stop_all(alive)
            alive = set()
            found = asyncio.run(_read(server.url))
    finally:
        stop_all(alive)
        server.stop()
    ledgers = [path.read_text() for path in directory.glob("*.ledger")]
    shutil.rmtree(directory)
    sent = Counter(id for id, _ in found["sent"])
    return Report(
        schedules=schedules,
        kills=kills,
        expected=expected,
        sent=sent,
        stray=set(sent) - set(possible),
        left={id for id, _ in found["left"]},
        late=[late for id, late in found["sent"] if id in expected],
        passed_over=sum(text.count("missed") for text in ledgers),
        planned=planned,
        speed=speed,
    )


def _fork(url: str, directory: Path, plans: list[Plan], speed: float) -> int:
    """Start a worker process; return its pid. SIGTERM stops it gracefully."""
    return fork(lambda: _work(url, directory, plans, speed))


async def _work(url: str, directory: Path, plans: list[Plan], speed: float) -> None:
    ledger = Ledger(directory)

    def observe(event: Event) -> None:
        if isinstance(event, ScheduleMissed):
            ledger.write("missed", event.name)

    async def handle(job: Work) -> None:
        pass

    async with InRealTime(bee.connect(url), speed) as broker:
        worker = bee.Worker(
            broker,
            QUEUE,
            Work,
            handle,
            policy=POLICY,
            concurrency=20,
            lease=LEASE,
            poll=0.2,
            observers=(observe,),
            schedules=[plan.declared for plan in plans],
        )
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
        await worker.run()


async def _planned(url: str, schedules: int, pace: Pace) -> bool:
    """Wait until each schedule has its first instant, while the store's clock stands still."""
    async with bee.connect(url) as broker:
        while time.time() < pace.begins:
            stats = await broker.stats(QUEUE)
            if (schedules, schedules) == (stats.delayed, stats.live):
                return True
            await asyncio.sleep(0.1)
    return False


async def _settled(url: str, jobs: int) -> None:
    """Wait until that many jobs have ended, and as long as one that was cut off needs to."""
    deadline = time.monotonic() + PATIENCE
    async with bee.connect(url) as broker:
        while time.monotonic() < deadline:
            stats = await broker.stats(QUEUE)
            if sum(stats.archived.values()) >= jobs:
                break
            await asyncio.sleep(0.1)
    await asyncio.sleep(3 * LEASE)


async def _read(url: str) -> dict[str, list[tuple[str, float]]]:
    """All jobs that have ended, each with how late it was sent; and what is kept of schedules."""
    found: dict[str, list[tuple[str, float]]] = {"sent": [], "left": []}
    live = (State.DELAYED, State.READY, State.LEASED)
    async with bee.connect(url) as broker:
        for state in (State.ARCHIVED, *live):
            after = None
            while True:
                page = await broker.scan(QUEUE, state, after=after, limit=1000)
                for stored in page.items:
                    _, at, stamp = stored.id.rpartition("@")
                    if at:
                        late = stored.sent_at - datetime.fromisoformat(stamp).timestamp()
                        found["sent"].append((stored.id, late))
                    else:
                        found["left"].append((stored.id, 0.0))
                if (after := page.after) is None:
                    break
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--store", choices=stores.NAMES, default="valkey")
    parser.add_argument("--schedules", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--days", type=float, default=7)
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--pause", type=float, default=1, help="seconds between two kills")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    report = run(
        options.store,
        schedules=options.schedules,
        processes=options.processes,
        days=options.days,
        seconds=options.seconds,
        pause=options.pause,
        seed=options.seed,
    )
    return tell(report)


if __name__ == "__main__":
    sys.exit(main())
