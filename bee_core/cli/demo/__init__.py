"""`bee demo`: a handful of jobs of every fate, then an audit that none was lost.

It uses nothing but the public API, so it is also an example to read.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys

import click

import bee_core as bee
from bee_core.cli.common.examples import examples
from bee_core.cli.demo.display import Display
from bee_core.events import AttemptLost, AttemptSettled, AttemptStarted, Event
from bee_core.job import snake_case

SQUARES = 5


class Greet(bee.Job):
    """Succeeds."""

    name: str


class Flaky(bee.Job, policy=bee.Policy(on_error=bee.Repeat(3))):
    """Fails twice, then succeeds."""


class Slow(bee.Job, policy=bee.Policy(timeout=0.4, on_timeout=bee.Repeat(1))):
    """Takes longer than its timeout, twice."""


class Poison(bee.Job):
    """Kills the process it runs in."""


class Endless(bee.Job):
    """Runs until it is cancelled."""


class FanOut(bee.Job):
    """Sends one job per number, and one that collects their results."""

    numbers: int


class Square(bee.Job):
    number: int


class Collect(bee.Job):
    numbers: int


Jobs = Greet | Flaky | Slow | Poison | Endless | FanOut | Square | Collect

hive = bee.Hive(
    "memory://",
    policy=bee.Policy(backoff=bee.Backoff(min=0.3, factor=2, max=1)),
    lease=3,
    observers=(),
)
jobs = hive.queue("demo", Jobs)
results: dict[int, int] = {}


@jobs.on(Greet)
async def greet(job: Greet) -> None:
    await asyncio.sleep(0.1)


@jobs.on(Flaky)
async def fail_twice(job: Flaky, delivery: bee.Delivery[Jobs]) -> None:
    if delivery.attempt < 3:
        raise ConnectionError("the mail server does not answer")


@jobs.on(Slow)
async def take_too_long(job: Slow) -> None:
    await asyncio.sleep(60)


@jobs.on(Poison, process=True)
def explode(job: Poison) -> None:
    os._exit(1)  # as the kernel would, out of memory


@jobs.on(Endless)
async def run_for_ever(job: Endless) -> None:
    await asyncio.Event().wait()


@jobs.on(FanOut)
async def fan_out(job: FanOut, delivery: bee.Delivery[Jobs]) -> None:
    results.clear()
    for number in range(job.numbers):
        delivery.then(Square(number), id=f"square-{number}")
    delivery.then(Collect(job.numbers), id="collect")


@jobs.on(Square)
async def square(job: Square) -> None:
    await asyncio.sleep(0.05 * job.number)
    results[job.number] = job.number**2


@jobs.on(Collect)
async def collect(job: Collect) -> None:
    if len(results) < job.numbers:
        raise bee.Snooze(0.2)


FATES = {
    "greeting": ("succeeds", "done"),
    "flaky": ("fails twice, then succeeds", "done"),
    "slow": ("takes longer than its timeout", "archived"),
    "poison": ("kills its process", "archived"),
    "garbage": ("is not a job at all", "archived"),
    "later": ("is delayed by a second", "done"),
    "twice": ("is sent twice", "done"),
    "unwanted": ("is cancelled while it waits", "cancelled"),
    "endless": ("is cancelled while it runs", "cancelled"),
    "parent": ("fans out, and collects", "done"),
    **{f"square-{n}": (f"  squares {n}", "done") for n in range(SQUARES)},
    "collect": ("  collects the squares", "done"),
}


async def send_all(display: Display) -> None:
    """Send one job of every fate, and see to the two that are to be cancelled."""
    await jobs.send(Greet("Ada"), id="greeting")
    await jobs.send(Flaky(), id="flaky")
    await jobs.send(Slow(), id="slow")
    await jobs.send(Poison(), id="poison")
    await hive.broker.send("demo", [bee.Draft("garbage", b"\xff not a job")])
    await jobs.send(Greet("Grace"), id="later", delay=1)
    for _ in range(2):
        again = await jobs.send(Greet("Alan"), id="twice")
    display.change("twice", "waits", f"the second send was {again.sent.value}")
    await jobs.send(Greet("nobody"), id="unwanted", delay=3600)
    await jobs.send(Endless(), id="endless")
    await jobs.send(FanOut(SQUARES), id="parent")
    await jobs.cancel("unwanted")
    display.change("unwanted", "cancelled", "before it ran")


async def cancel_when_running() -> None:
    """Cancel the endless job half a second after it was sent."""
    await asyncio.sleep(0.5)
    await jobs.cancel("endless")


def show(display: Display, event: Event) -> None:
    """Put an event of the worker on the display."""
    match event:
        case AttemptStarted(id=id):
            display.change(id, "runs", ran=True)
        case AttemptSettled(id=id, outcome=outcome, disposition=disposition):
            how = snake_case(type(outcome).__name__).replace("_", " ").replace("ruled", "snoozed")
            match disposition:
                case bee.Delete():
                    display.change(id, "done")
                case bee.Archive():
                    display.change(id, "archived", f"{how}; kept for a human to look at")
                case bee.Reschedule(delay=delay):
                    display.change(id, "again", f"{how}; again in {delay:.1f} s")
        case AttemptLost(id=id):
            display.change(id, "cancelled", "while it ran")
        case _:
            pass  # what workers do is not on this display


async def audit(display: Display) -> list[str]:
    """What is not as it should be: every id must have met its fate, and nothing be left."""
    faults = []
    stats = await hive.broker.stats("demo")
    if stats.live:
        faults.append(f"{stats.live} jobs are still in the queue")
    for id, (_, fate) in FATES.items():
        if display.rows[id].state != fate:
            faults.append(f"{id} should be {fate}, but is {display.rows[id].state}")
        kept = await hive.broker.get("demo", id)
        if (kept is not None) != (fate in ("archived", "cancelled")):
            faults.append(f"{id} is {'not ' if kept is None else ''}in the archive")
    if results != {n: n**2 for n in range(SQUARES)}:
        faults.append(f"the squares are {results}")
    return faults


async def _demo(display: Display) -> list[str]:
    with hive.substitute(bee.connect("memory://"), observers=[lambda e: show(display, e)]):
        async with hive:
            for id, (label, _) in FATES.items():
                display.add(id, label)
            await send_all(display)
            canceller = asyncio.create_task(cancel_when_running())
            await hive.run(until_empty=True)
            await canceller
            return await audit(display)


@click.command(
    short_help="Run jobs of every fate, and check that none was lost.",
    epilog=examples("bee demo", "bee demo --plain | less"),
)
@click.option("--plain", is_flag=True, help="Plain lines, also in a terminal.")
def demo(plain: bool) -> None:
    """Run jobs of every fate on the memory broker, and check that none was lost.

    Takes about two seconds and ends by itself. Needs no server.

    \b
    Exit codes:
      0  every job met its fate
      1  the audit found otherwise
      2  wrong use
    """
    raise SystemExit(run_demo(plain=plain))


def run_demo(*, plain: bool) -> int:
    """Run the demo; 0 if the audit found nothing."""
    # asyncio warns of each child that has died before it was killed; here one is meant to.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    display = Display(live=sys.stdout.isatty() and not plain)
    display.say("One process, the memory broker, one job of every fate.")
    display.say()
    faults = asyncio.run(_demo(display))
    states = [row.state for row in display.rows.values()]
    counts = [f"{states.count(state)} {state}" for state in ("done", "archived", "cancelled")]
    display.say()
    display.say(f"{len(states)} jobs: {', '.join(counts)}.")
    for fault in faults:
        display.say(f"AUDIT: {fault}")
    display.say("Nothing was lost." if not faults else "The audit failed.")
    return 1 if faults else 0
