"""`bee list`: the jobs of a queue, one a line; or what they failed of, one cause a line."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import click

from bee_core.broker import Store
from bee_core.cli.common.asking import ask, json_option, print_json, url_option
from bee_core.cli.common.errors import WrongUse
from bee_core.cli.common.examples import examples
from bee_core.cli.common.selecting import (
    LIVE,
    PAGE,
    Filters,
    check_queues,
    filter_options,
    filters_of,
)
from bee_core.cli.common.selecting import select as select_jobs
from bee_core.cli.common.tables import Table, table, terminal_width
from bee_core.cli.common.words import count, last_error, one_line, span, standing
from bee_core.codec import kind_of
from bee_core.fingerprint import Fingerprint, error_of, fingerprint
from bee_core.stored import State, Stored

_MOST_GROUPS = 10_000
_TITLES = ("id", "kind", "state", "when", ">runs", "last error")
_GROUP_TITLES = ("fingerprint", ">jobs", "kind", "reason", "last", "one of them", "error")


@click.command(
    name="list",
    short_help="List the jobs of a queue, and what they failed of.",
    epilog=examples(
        "bee list mail",
        "bee list mail --state archived --reason timed_out --since 1h",
        "bee list mail --group",
        "bee list mail --fingerprint 5f0c9a1b -n 0",
        "bee list mail --json --error Timeout | jq -r .id | bee retry mail -",
    ),
)
@click.argument("queue")
@click.option(
    "--state",
    type=click.Choice([state.value for state in State]),
    metavar="STATE",
    help="ready, delayed, leased, blocked or archived.",
)
@filter_options
@click.option("--group", is_flag=True, help="Archived ones, by what they failed of.")
@click.option(
    "-n",
    "--number",
    type=click.IntRange(min=0),
    default=100,
    metavar="N",
    help="Not more than this: 100. 0 is no limit.",
)
@url_option
@json_option
def list_jobs(
    queue: str,
    state: str | None,
    group: bool,
    number: int,
    url: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """List the jobs of a queue: ready, delayed, leased, blocked, and the newest of the archive.

    In each state as they will run; archived ones newest first. With --group it lists not jobs but
    causes: archived jobs of one kind that ended for one reason with one error, in which numbers and
    ids do not count.

    \b
    Exit codes:
      0  also if no job is like that
      1  there is no such queue
      2  wrong use
      3  the store does not answer, or refuses
    """
    filters = filters_of(options)
    if group and state not in (None, "archived"):
        raise WrongUse("--group is for archived jobs: leave out --state")
    states = [*LIVE, State.ARCHIVED] if state is None else [State(state)]

    async def go(store: Store) -> None:
        await check_queues(store, [queue])
        if group:
            await _list_groups(store, queue, filters, number, as_json)
        else:
            await _list(store, queue, states, filters, number, as_json)

    ask(url, go)


async def _list(
    store: Store,
    queue: str,
    states: Sequence[State],
    filters: Filters,
    number: int,
    as_json: bool,
) -> None:
    """Print as it comes: what is held at once is a page."""
    now, shown, more = time.time(), 0, False
    batch: list[Stored] = []
    printer = _Printer(as_json, queue, now)
    async for one in _each(select_jobs(store, queue, states, filters)):
        if number and shown == number:
            more = True
            break
        shown += 1
        batch.append(one)
        if len(batch) == PAGE:
            printer.add(batch)
            batch = []
    printer.add(batch)
    if as_json:
        return
    if not shown:
        click.echo(f"no job of {queue} is like that")
    if more:
        click.echo(f"these are the first {number}: -n 0 shows all", err=True)


async def _each(found: AsyncIterator[list[Stored]]) -> AsyncIterator[Stored]:
    async for page in found:
        for one in page:
            yield one


class _Printer:
    """Prints jobs as lines of JSON, or as a table."""

    def __init__(self, as_json: bool, queue: str, now: float) -> None:
        self._as_json = as_json
        self._queue = queue
        self._now = now
        self._table = Table(_TITLES, width=terminal_width())

    def add(self, batch: Sequence[Stored]) -> None:
        """The next jobs."""
        if self._as_json:
            for one in batch:
                print_json(plain(self._queue, one))
        elif batch:
            for line in self._table.lines([_row(one, self._now) for one in batch]):
                click.echo(line)


def _row(one: Stored, now: float) -> Sequence[str]:
    return (
        one_line(one.id),
        one_line(kind_of(one.headers, one.body) or "?", 50),
        one.state.value,
        standing(one, now),
        str(one.counters.deliveries),
        last_error(one),
    )


def plain(queue: str, one: Stored) -> dict[str, Any]:
    """A job for programs, without its body."""
    ended = one.note is not None or one.state is State.ARCHIVED
    return {
        "queue": queue,
        "id": one.id,
        "kind": kind_of(one.headers, one.body),
        "state": one.state.value,
        "incarnation": one.incarnation,
        "priority": one.priority,
        "key": one.key,
        "counters": one.counters,
        "sent_at": one.sent_at,
        "due_at": one.due_at,
        "leased_at": one.leased_at,
        "holder": one.holder,
        "progress": one.progress,
        "archived_at": one.archived_at,
        "reason": fingerprint(one).reason if ended else None,
        "error": error_of(one.note) or None,
        "fingerprint": fingerprint(one).digest if ended else None,
    }


# By cause.


class _Cause:
    """Jobs that failed alike."""

    def __init__(self, newest: Stored) -> None:
        self.newest = newest
        self.jobs = 0


async def _list_groups(
    store: Store, queue: str, filters: Filters, number: int, as_json: bool
) -> None:
    causes: dict[Fingerprint, _Cause] = {}
    others = 0
    async for one in _each(select_jobs(store, queue, [State.ARCHIVED], filters)):
        alike = fingerprint(one)
        if alike not in causes and len(causes) == _MOST_GROUPS:
            others += 1
            continue
        causes.setdefault(alike, _Cause(one)).jobs += 1
    ordered = sorted(causes.items(), key=lambda item: -item[1].jobs)
    shown = ordered[:number] if number else ordered
    if as_json:
        for alike, cause in shown:
            print_json(_plain_cause(queue, alike, cause))
        return
    if not shown:
        click.echo(f"no archived job of {queue} is like that")
        return
    now = time.time()
    rows = [_cause_row(alike, cause, now) for alike, cause in shown]
    for line in table(_GROUP_TITLES, rows, width=terminal_width()):
        click.echo(line)
    if len(shown) < len(ordered) or others:
        rest = sum(cause.jobs for _, cause in ordered[len(shown) :]) + others
        click.echo(f"{count(rest, 'job')} of other causes not shown: -n 0 shows more", err=True)


def _cause_row(alike: Fingerprint, cause: _Cause, now: float) -> Sequence[str]:
    return (
        alike.digest,
        str(cause.jobs),
        one_line(alike.kind or "?", 50),
        alike.reason,
        f"{span(now - (cause.newest.archived_at or now))} ago",
        one_line(cause.newest.id),
        one_line(alike.error),
    )


def _plain_cause(queue: str, alike: Fingerprint, cause: _Cause) -> dict[str, Any]:
    return {
        "queue": queue,
        "fingerprint": alike.digest,
        "jobs": cause.jobs,
        "kind": alike.kind or None,
        "reason": alike.reason,
        "error": alike.error,
        "last": cause.newest.archived_at,
        "example": cause.newest.id,
    }
