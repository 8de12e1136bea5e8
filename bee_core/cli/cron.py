"""`bee cron`: the schedules of a program, and what the store knows of them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, assert_never

import click
import msgspec
from cronsim import CronSim

from bee_core.broker import Store
from bee_core.cli.common.asking import ask_hive, json_option, print_json, program_url_option
from bee_core.cli.common.errors import NotThere, WrongUse
from bee_core.cli.common.examples import examples
from bee_core.cli.common.loading import load_hive
from bee_core.cli.common.tables import table, terminal_width
from bee_core.cli.common.words import one_line, span
from bee_core.errors import DecodeError
from bee_core.explain import when
from bee_core.hive import Hive
from bee_core.hive_queue import HiveQueue
from bee_core.ids import new_id
from bee_core.schedule import Plan
from bee_core.stored import State, Stored
from bee_core.ticks import Declared, plan_of
from bee_core.timing import Cron, Every, Timing

_NEXT = 3
_TITLES = ("name", "queue", "when", "next", "last tick", "state")


class Kept(msgspec.Struct, frozen=True):
    """A schedule that a program declares, and what the store has of it."""

    queue: str
    declared: Declared
    stored: Stored | None

    @property
    def plan(self) -> Plan | None:
        """What is planned; None if nothing is, or nothing that can be read here."""
        try:
            return None if self.stored is None else plan_of(self.stored.body)
        except DecodeError:
            return None


@click.group(
    short_help="Show the schedules of a program; do one now.",
    epilog=examples(
        "bee cron list shop.jobs:hive           when is what, and is it planned?",
        "bee cron run shop.jobs:hive nightly    do it once now",
    ),
)
def cron() -> None:
    """The schedules of a program: when they are next, and what the store knows of them.

    \b
    Exit codes:
      0  fine
      1  there is no such schedule
      2  wrong use: no such module, hive, option
      3  the store does not answer, or refuses
    """


@cron.command(
    "list",
    short_help="List the schedules of a program, and what the store knows of them.",
    epilog=examples(
        "bee cron list shop.jobs:hive",
        "bee cron list shop.jobs --url redis://localhost",
        "bee cron list shop.jobs --json | jq -r '.name, .next[0]'",
    ),
)
@click.argument("target", metavar="MODULE:HIVE")
@program_url_option
@json_option
def list_schedules(target: str, url: str | None, as_json: bool) -> None:
    """List the schedules of a program: when, the next three times, the last tick, the state.

    MODULE:HIVE is as for bee worker. The state is what the store says: a schedule is planned when
    a worker that declares it has run. Changes nothing.

    \b
    Exit codes:
      0  fine, also if there are none
      2  wrong use: no such module, hive, option
      3  the store does not answer, or refuses
    """
    hive = load_hive(target)
    found = _declared(hive)
    if not found:
        if not as_json:
            click.echo("no schedules")
        return

    async def look(store: Store) -> list[Kept]:
        return [Kept(name, one, await store.get(name, one.id)) for name, one in found]

    kept = ask_hive(hive, url, look)
    if as_json:
        for one in kept:
            print_json(_plain(one))
        return
    now = time.time()
    rows = [row for one in kept for row in _rows(one, now)]
    for line in table(_TITLES, rows, width=terminal_width()):
        click.echo(line)


@cron.command(
    short_help="Send the job of a schedule once, now.",
    epilog=examples(
        "bee cron run shop.jobs:hive nightly",
        "bee cron run shop.jobs:hive nightly --queue desk",
    ),
)
@click.argument("target", metavar="MODULE:HIVE")
@click.argument("name")
@click.option("--queue", metavar="QUEUE", help="Of this one, if several have such a schedule.")
@program_url_option
@json_option
def run(target: str, name: str, queue: str | None, url: str | None, as_json: bool) -> None:
    """Send the job of a schedule once, now, with an id of its own.

    The schedule is not changed: it does not count as a tick. Prints the id.

    \b
    Exit codes:
      0  sent
      1  there is no such schedule
      2  wrong use: no such module, hive, option; several have that name
      3  the store does not answer, or refuses
    """
    hive = load_hive(target)
    found, declared = _choose(hive, name, queue)
    id = f"{declared.schedule.name}@by-hand-{new_id()}"
    draft = msgspec.structs.replace(declared.draft, id=id)

    async def send(store: Store) -> None:
        await found.send_many([draft])

    ask_hive(hive, url, send)
    if as_json:
        print_json({"queue": found.name, "name": name, "id": id})
    else:
        click.echo(f"sent {id} to {found.name}")


def _declared(hive: Hive) -> list[tuple[str, Declared]]:
    """All schedules of a hive, with their queues."""
    return [
        (queue.name, declared)
        for queue in hive.queues.values()
        for declared in queue.handlers.schedules.values()
    ]


def _choose(hive: Hive, name: str, queue: str | None) -> tuple[HiveQueue[Any], Declared]:
    """The schedule that is meant."""
    there = _declared(hive)
    found = [
        (hive.queues[where], one)
        for where, one in there
        if one.schedule.name == name and queue in (None, where)
    ]
    if not found:
        known = ", ".join(f"{one.schedule.name} (in {where})" for where, one in there) or "none"
        raise NotThere(f"no schedule {name!r}{f' in {queue}' if queue else ''}; there are: {known}")
    if len(found) > 1:
        names = " or ".join(where.name for where, _ in found)
        raise WrongUse(f"several queues have a schedule {name!r}: say which, --queue {names}")
    return found[0]


def _rows(kept: Kept, now: float) -> Iterator[Sequence[str]]:
    """Three lines, one for each of the next times."""
    schedule, plan = kept.declared.schedule, kept.plan
    first, *others = [when(at.timestamp()) for at in schedule.upcoming(_NEXT)]
    last = "never" if plan is None or plan.last is None else f"{span(now - plan.last)} ago"
    yield schedule.name, kept.queue, _words(schedule.timing), first, last, state(kept)
    for other in others:
        yield "", "", "", other, "", ""


def _words(timing: Timing) -> str:
    match timing:
        case Every(seconds=seconds):
            return f"every {span(seconds)}"
        case Cron(expression=expression, tz=tz):
            said = CronSim(expression, datetime(2000, 1, 1)).explain()
            return f"{' '.join(expression.split())} {tz}: {said[0].lower()}{said[1:]}"
        case _:
            assert_never(timing)


def state(kept: Kept) -> str:
    """What the store says of a schedule, in words."""
    stored, plan = kept.stored, kept.plan
    if stored is None:
        return "not planned: no worker that declares it has run"
    if stored.state is State.ARCHIVED:
        reason = "ruled" if stored.note is None else stored.note.reason
        return f"archived ({reason}): a worker that starts plans it anew"
    if plan is None:
        return "planned by another release of bee"
    if plan.timing != str(kept.declared.schedule.timing):
        return f"planned otherwise ({one_line(plan.timing)}), until a worker of this program starts"
    match stored.state:
        case State.DELAYED:
            return "waits for its time"
        case State.LEASED:
            return f"ticks, on {one_line(stored.holder or '?')}"
        case State.READY | State.BLOCKED:
            return "due: waits for a worker"
        case _:
            assert_never(stored.state)


def _plain(kept: Kept) -> dict[str, Any]:
    schedule, plan, stored = kept.declared.schedule, kept.plan, kept.stored
    timing = schedule.timing
    return {
        "name": schedule.name,
        "queue": kept.queue,
        "every": timing.seconds if isinstance(timing, Every) else None,
        "cron": timing.expression if isinstance(timing, Cron) else None,
        "tz": timing.tz if isinstance(timing, Cron) else None,
        "words": _words(timing),
        "next": [at.timestamp() for at in schedule.upcoming(_NEXT)],
        "last": None if plan is None else plan.last,
        "state": None if stored is None else stored.state.value,
        "planned": None if plan is None else plan.instant,
        "text": state(kept),
    }
