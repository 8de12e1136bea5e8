"""`bee chaos`: tries to break the workers of a program, and counts whether a job was lost."""

from __future__ import annotations

import asyncio
import itertools
import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from bee_core.cli.chaos.audit import Audit
from bee_core.cli.chaos.making import CannotMake, make
from bee_core.cli.chaos.running import Plan, Run, cuttable
from bee_core.cli.chaos.server import Guard, start_server
from bee_core.cli.common.asking import is_memory, json_option, print_json, url_saying
from bee_core.cli.common.errors import WrongUse, told_plainly
from bee_core.cli.common.examples import examples
from bee_core.cli.common.loading import load_hive, pick_queue
from bee_core.cli.common.units import as_seconds
from bee_core.cli.common.words import count
from bee_core.cli.send.lines import BadLine, Reader
from bee_core.hive import Hive
from bee_core.hive_queue import HiveQueue
from bee_core.message import Draft
from bee_core.registry import connect
from bee_core.schema import schema_of
from bee_core.url import redact

EXAMPLE = "bee_core.cli.chaos.example:hive"


@click.command(
    short_help="Kill workers, cut their connections, and count every job.",
    epilog=examples(
        "bee chaos                                    a program that comes with it",
        "bee chaos shop.jobs:hive --seconds 60 --kills 20",
        "bee chaos shop.jobs:hive --queue mail --jobs-from jobs.ndjson",
        "bee chaos shop.jobs --url redis://test --yes-this-broker-is-for-tests",
    ),
)
@click.argument("target", metavar="[MODULE:HIVE]", default=EXAMPLE)
@click.option("--queue", metavar="QUEUE", help="This one only. Otherwise all with handlers.")
@click.option(
    "--jobs", type=click.IntRange(min=1), default=1000, metavar="N", help="To send: 1000."
)
@click.option(
    "--jobs-from",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="These, as for bee send. Otherwise made up.",
)
@click.option("--seconds", type=click.FloatRange(min=1), default=20, metavar="N", help="Time: 20.")
@click.option("--kills", type=click.IntRange(min=0), default=5, metavar="N", help="kill -9: 5.")
@click.option("--cuts", type=click.IntRange(min=0), default=2, metavar="N", help="Broker away: 2.")
@click.option(
    "--cut-for", callback=as_seconds, default="2s", metavar="TIME", help="How long it is: 2s."
)
@click.option(
    "--faults",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Single connections cut, reset, slow or silent: 0.",
)
@click.option(
    "--processes", type=click.IntRange(min=1), default=2, metavar="N", help="Of workers: 2."
)
@click.option(
    "--patience",
    callback=as_seconds,
    default="2m",
    metavar="TIME",
    help="For the last jobs to end: 2m.",
)
@click.option("--seed", type=int, metavar="N", help="For the same deeds again.")
@url_saying("A broker for tests. Otherwise a Valkey of its own.")
@click.option("--yes-this-broker-is-for-tests", "sure", is_flag=True, help="Needed with --url.")
@json_option
def chaos(
    target: str,
    queue: str | None,
    jobs: int,
    jobs_from: Path | None,
    seconds: float,
    kills: int,
    cuts: int,
    cut_for: float,
    faults: int,
    processes: int,
    patience: float,
    seed: int | None,
    url: str | None,
    sure: bool,
    as_json: bool,
) -> None:
    """Try to break the workers of your program, and count whether a job was lost.

    Starts a Valkey of its own, and on it bee worker with several processes of your program. Sends
    jobs, kills processes with -9, cuts the connection to the broker, then lets everything end. What
    your handlers do to the world outside is REAL, and the jobs are made up unless you give some.

    Every job that was sent must be done, archived or waiting at the end. Some will have run more
    than once, and the report says why: that is what at least once means.

    \b
    Exit codes:
      0  nothing was lost
      1  jobs were lost, or the workers do not work
      2  wrong use: no such module, hive, queue; no jobs can be made up
      3  there is no server, it does not answer, or refuses
    """
    with told_plainly():
        if url is not None and not sure:
            raise WrongUse(
                f"chaos fills {redact(url)} with jobs and breaks their workers: if that broker is "
                "for tests, say --yes-this-broker-is-for-tests"
            )
        if url is not None and is_memory(url):
            raise WrongUse("memory:// lives inside one process: chaos needs a broker for several")
        hive = load_hive(target)
        chosen = _queues(hive, queue, jobs_from)
        chance = random.Random(seed := random.randrange(10**6) if seed is None else seed)
        to_send = _read(chosen[0], jobs_from) if jobs_from else _make(chosen, jobs, chance)
        plan = Plan(
            target=target,
            queues=tuple(one.name for one in chosen),
            declared=frozenset(hive.queues),
            schedules=sum(len(one.handlers.schedules) for one in chosen),
            seconds=seconds,
            kills=kills,
            cuts=cuts,
            cut_for=cut_for,
            faults=faults,
            processes=processes,
            patience=patience,
        )
        found = _carry_out(plan, to_send, url, chance, seed, as_json)
    raise SystemExit(1 if found.faults else 0)


def _carry_out(
    plan: Plan,
    jobs: Sequence[tuple[str, Draft]],
    url: str | None,
    chance: random.Random,
    seed: int,
    as_json: bool,
) -> Audit:
    directory = Path(tempfile.mkdtemp(prefix="bee-chaos-"))
    guard = Guard(directory)

    def say(line: str) -> None:
        click.echo(line, err=as_json)

    try:
        where = url or f"redis://127.0.0.1:{start_server(guard, directory)}"
        server = "a Valkey of its own" if url is None else redact(url)
        say(f"{plan.target} on {server}; --seed {seed} for the same deeds again")
        if (plan.cuts or plan.faults) and cuttable(where) is None:
            say("the connection to this broker cannot be cut: a socket, TLS, or several servers")
        found, run = asyncio.run(_run(plan, jobs, where, directory, guard, chance, say))
        if as_json:
            done = {"kills": run.killed, "cuts": run.cut, "broken": run.broken, "seed": seed}
            few = {"lost": len(found.lost), "unexplained": len(found.unexplained)}
            print_json(msgspec.to_builtins(found) | few | done | {"faults": found.faults})
        else:
            _conclude(found, run)
        return found
    finally:
        guard.end()


async def _run(
    plan: Plan,
    jobs: Sequence[tuple[str, Draft]],
    url: str,
    directory: Path,
    guard: Guard,
    chance: random.Random,
    say: Callable[[str], None],
) -> tuple[Audit, Run]:
    async with connect(url) as store:
        if there := await store.queues():
            raise WrongUse(
                f"that broker is not empty, it has {', '.join(there[:5])}: chaos takes an empty one"
            )
        run = Run(plan, store, url, directory, guard, chance, say)
        found = await run.run(jobs)
        if not found.faults:  # or else somebody will want to look at it
            for name in plan.declared.intersection(await store.queues()):  # no others'
                await store.drop(name)
    return found, run


def _conclude(found: Audit, run: Run) -> None:
    click.echo()
    for line in found.lines():
        click.echo(line)
    click.echo()
    for fault in found.faults:
        click.echo(f"FAULT: {fault}")
    if found.faults:
        click.echo(f"the last words of the workers:\n{run.said}", err=True)
        return
    kills = "1 process was killed" if run.killed == 1 else f"{run.killed} processes were killed"
    cuts = "once" if run.cut == 1 else f"{run.cut} times"
    broken = f", {count(run.broken, 'connection')} broke" if run.broken else ""
    click.echo(f"Nothing was lost: {kills}, the broker was cut off {cuts}{broken}.")


# The jobs.


def _queues(hive: Hive, name: str | None, jobs_from: Path | None) -> list[HiveQueue[Any]]:
    handled = [queue for queue in hive.queues.values() if queue.handlers.any]
    if not handled:
        raise WrongUse("this hive has no queue with a handler, so there is nothing to break")
    if name is None and jobs_from is None:
        return handled
    if name is None and len(handled) == 1:
        return handled
    chosen = pick_queue(hive, name)
    if chosen not in handled:
        raise WrongUse(f"queue {chosen.name!r} has no handler")
    return [chosen]


def _read(queue: HiveQueue[Any], file: Path) -> list[tuple[str, Draft]]:
    reader = Reader(queue)
    found = []
    for number, line in enumerate(file.read_bytes().splitlines(), 1):
        if line.strip():
            try:
                found.append((queue.name, reader.draft(line)))
            except BadLine as error:
                raise WrongUse(f"{file}, line {number}: {error}") from error
    ids = [draft.id for _, draft in found]
    if len(set(ids)) < len(ids):
        raise WrongUse(f"{file} has an id twice: then nobody could count its jobs")
    if not found:
        raise WrongUse(f"{file} is empty")
    return found


def _make(
    queues: list[HiveQueue[Any]], count: int, chance: random.Random
) -> list[tuple[str, Draft]]:
    found: list[tuple[str, Draft]] = []
    makers = []
    for queue in queues:
        reader, name = Reader(queue), queue.name
        try:
            lines = make(schema_of(queue.form), chance)
            first = next(lines)
            reader.draft(first)
        except (CannotMake, BadLine) as error:
            raise WrongUse(
                f"no jobs can be made up for queue {name!r}: {error}. Give some: --jobs-from FILE "
                "--queue " + name
            ) from error
        makers.append((name, reader, lines))
    for name, reader, lines in itertools.islice(itertools.cycle(makers), count):
        found.append((name, reader.draft(next(lines))))
    return found
