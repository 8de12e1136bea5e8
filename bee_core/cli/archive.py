"""`bee archive`: jobs out of a store, as lines of JSON."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import click

from bee_core.broker import Store
from bee_core.cli.asking import ask, url_option
from bee_core.cli.examples import examples
from bee_core.cli.loading import WrongUse
from bee_core.export import export_line
from bee_core.stored import State, Stored

_PAGE = 500


@click.group(
    short_help="Take jobs out of a store, as lines of JSON.",
    epilog=examples(
        "bee archive export mail 0199f6c1-7a10-7c3e-8a4e-0d5a3f1b2c3d -o job.ndjson",
        "bee archive export mail --all | jq -r .note.reason | sort | uniq -c",
    ),
)
def archive() -> None:
    """Take jobs out of a store, as lines of JSON.

    \b
    Exit codes:
      0  fine
      1  some were not found
      2  wrong use
      3  the store does not answer, or refuses
    """


@archive.command(
    short_help="Write jobs as lines of JSON, for bee replay and others.",
    epilog=examples(
        "bee archive export mail 0199f6c1-7a10-7c3e-8a4e-0d5a3f1b2c3d -o job.ndjson",
        "bee archive export mail --all -o archive.ndjson",
        "bee archive export mail --all --state delayed --url redis://localhost",
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

    Those of the given ids, live or archived, or all that are archived. Nothing is changed in the
    store. The body stands there as the JSON that it is, or in body64 if it is none. A file is
    there when it is complete.

    \b
    Exit codes:
      0  all were written
      1  some ids were not found; the others were written
      2  wrong use
      3  the store does not answer, or refuses
    """
    if whole == bool(ids):
        raise WrongUse("say which: ids, or --all" if not whole else "give ids or --all, not both")
    if state is not None and not whole:
        raise WrongUse("--state goes with --all: an id is found in whatever state it is")
    chosen = State.ARCHIVED if state is None else State(state)
    missing: list[str] = []

    async def write(store: Store) -> int:
        count = 0
        found = _all(store, queue, chosen) if whole else _some(store, queue, ids, missing)
        async for stored in found:
            out.write(export_line(queue, stored) + b"\n")
            count += 1
        return count

    with _written(output) as out:
        count = ask(url, write)
        out.flush()
    if output is not None:
        click.echo(f"{count} jobs written to {output}", err=True)
    for id in missing:
        click.echo(f"not found: {id}", err=True)
    raise SystemExit(1 if missing else 0)


async def _all(store: Store, queue: str, state: State) -> AsyncIterator[Stored]:
    after: str | None = None
    while True:
        page = await store.scan(queue, state, after=after, limit=_PAGE)
        for stored in page.items:
            yield stored
        if (after := page.after) is None:
            return


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
