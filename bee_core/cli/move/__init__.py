"""`bee move`: queues, with all they hold, from one store to another."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from contextlib import suppress

import click
import msgspec

from bee_core.cli.common.asking import is_memory, json_option
from bee_core.cli.common.errors import CannotAsk, WrongUse, told_plainly
from bee_core.cli.common.examples import examples
from bee_core.cli.common.loading import names_of
from bee_core.cli.common.units import as_seconds
from bee_core.cli.move.view import View
from bee_core.moving import BATCH, check, survey
from bee_core.moving import move as move_queues
from bee_core.moving.events import Moved
from bee_core.registry import connect

INTERRUPTED = 130
TERMINATED = 143


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What was typed."""

    source: str
    destination: str
    queues: Sequence[str] | None
    dry_run: bool
    batch: int
    wait: float


@click.command(
    short_help="Move queues from one store to another.",
    epilog=examples(
        "bee move redis://old redis://new",
        "bee move redis://localhost postgresql://localhost/shop --dry-run",
        "bee move $OLD $NEW --queues mail,films --wait 5m",
        "bee move $OLD $NEW --json | jq -c 'select(.event == \"moved\")'",
    ),
)
@click.argument("source", metavar="SRC_URL")
@click.argument("destination", metavar="DST_URL")
@click.option("--queues", metavar="A,B", help="These only. Otherwise all that hold something.")
@click.option("--dry-run", is_flag=True, help="Say what would be moved, and change nothing.")
@click.option(
    "--batch",
    type=click.IntRange(1, 5_000),
    default=BATCH,
    metavar="N",
    help=f"Jobs to copy at once: {BATCH}.",
)
@click.option(
    "--wait",
    callback=as_seconds,
    default="30s",
    metavar="TIME",
    help="For running jobs to end: 30s.",
)
@json_option
def move(
    source: str,
    destination: str,
    queues: str | None,
    dry_run: bool,
    batch: int,
    wait: float,
    as_json: bool,
) -> None:
    """Move queues, with all they hold, from one store to another.

    The queue at SRC_URL is paused, running jobs get some time to end, and then everything is
    copied and deleted, batch by batch: what is ready, delayed or archived, with its counters, its
    past, and what was reported to it. Nothing is lost, whatever fails: run it again, and it goes
    on.

    \b
    Exit codes:
      0    everything is moved
      1    some stays at the source: it says what, and why
      2    wrong use, also if both URLs lead to one store
      3    a store does not answer, or refuses, or is full
      130  interrupted; 143 by SIGTERM
    """
    for url in (source, destination):
        if is_memory(url):
            raise WrongUse(
                "memory:// lives inside one process, and this is another one: nothing can be "
                "moved from there or to there"
            )
    if source == destination:
        raise WrongUse("both URLs are the same: there is nothing to move")
    options = Options(
        source=source,
        destination=destination,
        queues=names_of(queues, "move all"),
        dry_run=dry_run,
        batch=batch,
        wait=wait,
    )
    view = View(source, as_json=as_json, dry_run=dry_run)
    reports = _run(options, view)
    if not dry_run:
        view.end(reports)
    raise SystemExit(0 if all(report.is_complete for report in reports) else 1)


def _run(options: Options, view: View) -> Sequence[Moved]:
    """Do it. What stops it is one sentence, and another one that says how things stand."""
    try:
        with told_plainly():
            return asyncio.run(_move(options, view))
    except CannotAsk as refusal:
        notes = getattr(refusal.__cause__, "__notes__", ())
        where = "".join(f"the {note}: " for note in dict.fromkeys(notes))
        standing = view.standing()
        sentences = f"{where}{refusal.message}" + (f".\n{standing}" if standing else "")
        raise CannotAsk(sentences) from refusal
    except (KeyboardInterrupt, asyncio.CancelledError) as error:
        click.echo(f"\nInterrupted. {view.standing()}", err=True)
        by_hand = isinstance(error, KeyboardInterrupt)
        raise SystemExit(INTERRUPTED if by_hand else TERMINATED) from None


async def _move(options: Options, view: View) -> Sequence[Moved]:
    task = asyncio.current_task()
    assert task is not None
    with suppress(NotImplementedError):  # on Windows
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with connect(options.source) as source, connect(options.destination) as destination:
        plan = await survey(source, options.queues)
        view.plan(plan)
        if options.dry_run:
            await check(destination)
            return []
        return await move_queues(
            source,
            destination,
            [found.queue for found in plan],
            batch=options.batch,
            wait=options.wait,
            tell=view.tell,
        )
