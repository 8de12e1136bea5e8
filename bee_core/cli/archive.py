"""`bee archive`: jobs out of a store, as lines of JSON, and into another."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import click

from bee_core.adoption import check_adopted
from bee_core.broker import Store
from bee_core.checks import check_queue
from bee_core.cli.common.asking import ask, url_option
from bee_core.cli.common.errors import WrongUse, told_plainly
from bee_core.cli.common.examples import examples
from bee_core.cli.common.exports import read_export
from bee_core.cli.common.selecting import check_queues, ids_of, pages
from bee_core.cli.common.words import count
from bee_core.errors import InvalidInput
from bee_core.export import export_line
from bee_core.message import NO_REPORTS
from bee_core.stored import State, Stored

_BATCH = 500


@click.group(
    short_help="Take jobs out of a store as lines of JSON, and into another.",
    epilog=examples(
        "bee archive export mail 0199f6c1-7a10-7c3e-8a4e-0d5a3f1b2c3d -o job.ndjson",
        "bee archive export mail --all | jq -r .note.reason | sort | uniq -c",
        "bee archive import archive.ndjson --url redis://elsewhere",
    ),
)
def archive() -> None:
    """Take jobs out of a store as lines of JSON, and into another.

    \b
    Exit codes:
      0  fine
      1  some were not found, or were there already
      2  wrong use
      3  the store does not answer, or refuses
    """


@archive.command(
    short_help="Write jobs as lines of JSON, for bee replay and others.",
    epilog=examples(
        "bee archive export mail 0199f6c1-7a10-7c3e-8a4e-0d5a3f1b2c3d -o job.ndjson",
        "bee archive export mail --all -o archive.ndjson",
        "bee archive export mail --all --state delayed --url redis://localhost",
        "bee list mail --reason failed --json | jq -r .id | bee archive export mail -",
    ),
)
@click.argument("queue")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--all", "whole", is_flag=True, help="All that are archived, newest first.")
@click.option(
    "--state",
    type=click.Choice([state.value for state in State]),
    metavar="STATE",
    help="With --all: those that are ready, delayed, leased or blocked instead.",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where to. Otherwise standard output.",
)
@url_option
def export(
    queue: str,
    ids: tuple[str, ...],
    whole: bool,
    state: str | None,
    output: Path | None,
    url: str | None,
) -> None:
    """Write jobs as lines of JSON: with body, headers, counters, note, history and times.

    Those of the given ids, live or archived, or all that are archived; - reads ids from standard
    input, one a line. Nothing is changed in the
    store. The body stands there as the JSON that it is, or in body64 if it is none. A file is
    there when it is complete.

    \b
    Exit codes:
      0  all were written
      1  some ids were not found, the others were written; or no such queue
      2  wrong use
      3  the store does not answer, or refuses
    """
    if whole == bool(ids):
        raise WrongUse("say which: ids, or --all" if not whole else "give ids or --all, not both")
    if state is not None and not whole:
        raise WrongUse("--state goes with --all: an id is found in whatever state it is")
    chosen = State.ARCHIVED if state is None else State(state)
    missing: list[str] = []
    with told_plainly():
        names = ids_of(ids)

    async def write(store: Store) -> int:
        if whole:
            await check_queues(store, [queue])
        written = 0
        found = _all(store, queue, chosen) if whole else _some(store, queue, names, missing)
        async for stored in found:
            out.write(export_line(queue, stored) + b"\n")
            written += 1
        return written

    with _written(output) as out:
        written = ask(url, write)
        out.flush()
    if output is not None:
        click.echo(f"{count(written, 'job')} written to {output}", err=True)
    for id in missing:
        click.echo(f"not found: {id}", err=True)
    raise SystemExit(1 if missing else 0)


@archive.command(
    "import",
    short_help="Take exported jobs into a store.",
    epilog=examples(
        "bee archive import archive.ndjson --url postgresql://localhost/shop",
        "bee archive import archive.ndjson --dry-run",
    ),
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--queue", metavar="QUEUE", help="Into this one. Otherwise where they were.")
@click.option("--dry-run", is_flag=True, help="Check only, and take in nothing.")
@url_option
def import_(file: Path, queue: str | None, dry_run: bool, url: str | None) -> None:
    """Take exported jobs into a store, with all they have: counters, note, history, times.

    Archived ones go into the archive, others wait as they did. The whole file is checked first.
    What is there already is left alone, so it may be done again: a live job whose id is live there,
    or an archived one that was sent and archived at the same moments.

    \b
    Exit codes:
      0  all were taken in, or could be
      1  some were there already
      2  wrong use: not an export, or jobs that somebody holds
      3  the store does not answer, or refuses
    """
    jobs = _read(file, queue)
    if dry_run:
        click.echo(f"{count(len(jobs), 'job')}: fine, nothing was taken in")
        return

    done = refused = 0

    async def adopt(store: Store) -> None:
        nonlocal done, refused
        for name, batch in _batches(jobs):
            refused += len(await store.adopt(name, batch))
            done += len(batch)

    try:
        ask(url, adopt)
    except (click.ClickException, KeyboardInterrupt):
        click.echo(f"{done} of {len(jobs)} jobs are there for certain: do it again", err=True)
        raise
    there = f", {refused} there already" if refused else ""
    click.echo(f"{count(len(jobs) - refused, 'job')} taken in{there}")
    raise SystemExit(1 if refused else 0)


def _read(file: Path, queue: str | None) -> list[tuple[str, Stored]]:
    """Each job with its queue, or wrong use, before anything is changed."""
    found: list[tuple[str, Stored]] = []
    for place, exported in read_export(file):
        if exported.leased_until is not None or exported.state in (State.LEASED, State.BLOCKED):
            raise WrongUse(
                f"{place}: {exported.id} was held, and may have ended since. "
                "Leave out the line, or export it when nobody holds it"
            )
        try:
            name = check_queue(exported.queue if queue is None else queue)
            check_adopted([exported.stored], NO_REPORTS, 0)
        except InvalidInput as error:
            raise WrongUse(f"{place}: {error}") from error
        found.append((name, exported.stored))
    return found


def _batches(jobs: list[tuple[str, Stored]]) -> Iterator[tuple[str, list[Stored]]]:
    """Those of one queue together. Of the archive the oldest first, which an export has last."""
    for name in dict.fromkeys(name for name, _ in jobs):
        every = [stored for queue, stored in jobs if queue == name]
        live = [stored for stored in every if stored.state is not State.ARCHIVED]
        archived = [stored for stored in every if stored.state is State.ARCHIVED]
        for start in range(0, len(live), _BATCH):
            yield name, live[start : start + _BATCH]
        for end in range(len(archived), 0, -_BATCH):
            yield name, archived[max(0, end - _BATCH) : end]


async def _all(store: Store, queue: str, state: State) -> AsyncIterator[Stored]:
    async for page in pages(store, queue, state):
        for stored in page:
            yield stored


async def _some(
    store: Store, queue: str, ids: Sequence[str], missing: list[str]
) -> AsyncIterator[Stored]:
    for id in ids:
        stored = await store.get(queue, id)
        if stored is None:
            missing.append(id)
        else:
            yield stored


@contextmanager
def _written(output: Path | None) -> Iterator[BinaryIO]:
    """Where to write. A file takes its place at the end, and only then."""
    if output is None:
        yield sys.stdout.buffer
        return
    part = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        with part.open("xb") as out:
            yield out
        part.replace(output)
    except OSError as error:
        raise WrongUse(f"{output} cannot be written: {error.strerror}") from error
    finally:
        with suppress(OSError):
            part.unlink()
