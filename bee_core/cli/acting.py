"""Doing something to many jobs: counted first, agreed on, done in batches, accounted for.

What a command does is one function, from a batch to what was not done, and why. The rest is the
same for all of them.
"""

from __future__ import annotations

import signal
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import NoReturn, TypeAlias, TypeVar

import click

from bee_core.broker import Store
from bee_core.cli.loading import WrongUse
from bee_core.cli.selecting import PAGE, Filters, select
from bee_core.cli.tables import is_terminal
from bee_core.cli.words import count, one_line
from bee_core.fingerprint import Fingerprint, fingerprint
from bee_core.stored import State, Stored

Command = TypeVar("Command", bound=Callable[..., None])
Missed: TypeAlias = Sequence[tuple[str, str]]
"""Ids to which it was not done, each with the reason."""

_GROUPS = 1000
_SHOWN = 5
_NAMED = 20
_EVERY = 0.2


class Deed:
    """What a command does to jobs, in words: `Deed("retry", "retried", "archived job")`."""

    def __init__(self, verb: str, done: str, noun: str) -> None:
        self.verb = verb
        self.done = done
        self.noun = noun


class Survey:
    """A first look at what the filters let through, and where that ended."""

    def __init__(self) -> None:
        self.total = 0
        self.groups: Counter[Fingerprint] = Counter()
        self._archived_at = 0.0
        self._incarnation = 0

    def add(self, found: Sequence[Stored]) -> None:
        """Count them."""
        for one in found:
            self.total += 1
            alike = _alike(one)
            if alike in self.groups or len(self.groups) < _GROUPS:
                self.groups[alike] += 1
            self._archived_at = max(self._archived_at, one.archived_at or 0.0)
            self._incarnation = max(self._incarnation, one.incarnation)

    def covers(self, one: Stored) -> bool:
        """Whether it was there at the first look: not a later life, nor archived later.

        So a job that is retried and fails again is not retried a second time in the same run.
        """
        later = (one.archived_at or 0.0) > self._archived_at
        return not later and one.incarnation <= self._incarnation

    def lines(self) -> list[str]:
        """What the most of them are."""
        shown = [
            f"  {number:>6}  {one_line(alike.kind or '?', 50)}  {alike.reason}  "
            f"{one_line(alike.error, 120)}"
            for alike, number in self.groups.most_common(_SHOWN)
        ]
        rest = self.total - sum(number for _, number in self.groups.most_common(_SHOWN))
        return shown + ([f"  {rest:>6}  others"] if rest else [])


def _alike(one: Stored) -> Fingerprint:
    """What a job has in common with others: how it ended, or else where it is."""
    found = fingerprint(one)
    if one.note is not None or one.state is State.ARCHIVED:
        return found
    return Fingerprint(found.kind, one.state.value, "")


class Account:
    """What was done and what was not. It is told also if the command is stopped half-way."""

    def __init__(self, deed: Deed, queue: str, total: int, *, name_all: bool) -> None:
        self._deed = deed
        self._queue = queue
        self._total = total
        self._name_all = name_all
        self._told = 0.0
        self._live = is_terminal(sys.stderr) and total > PAGE
        self.done = 0
        self.missed = 0

    def add(self, asked: int, missed: Missed) -> None:
        """A batch is over."""
        self.done += asked - len(missed)
        self._clear()
        for id, why in missed:
            self.missed += 1
            if self._name_all or self.missed <= _NAMED:
                click.echo(f"{one_line(id)}: {why}", err=True)
        if self._live and time.monotonic() - self._told > _EVERY:
            self._told = time.monotonic()
            click.echo(f"\r{self.done + self.missed} of {self._total}", err=True, nl=False)

    def close(self) -> None:
        """Say what came of it."""
        self._clear()
        if not self._name_all and self.missed > _NAMED:
            click.echo(f"and {self.missed - _NAMED} more", err=True)
        not_done = f", {self.missed} not" if self.missed else ""
        noun = self._deed.noun
        click.echo(f"{self._deed.done} {count(self.done, noun)} of {self._queue}{not_done}")

    def _clear(self) -> None:
        if self._live:
            click.echo("\r\x1b[K", err=True, nl=False)


def sure_options(command: Command) -> Command:
    """`--all`, `--dry-run`, `-y`."""
    for option in reversed(
        [
            click.option("--all", "everything", is_flag=True, help="Every one of them."),
            click.option("--dry-run", is_flag=True, help="Only say how many there are."),
            click.option("-y", "--yes", is_flag=True, help="Do not ask."),
        ]
    ):
        command = option(command)
    return command


def check_choice(ids: Sequence[str], filters: Filters, everything: bool, narrowed: bool) -> None:
    """Wrong use unless it is clear which jobs are meant."""
    filtered = narrowed or not filters.any
    if ids and (filtered or everything):
        raise WrongUse("give ids, or filters, or --all: not several of them")
    if not ids and not filtered and not everything:
        raise WrongUse("say which: ids (- reads them from standard input), filters, or --all")


async def act_on_ids(
    deed: Deed,
    queue: str,
    ids: Sequence[str],
    act: Callable[[Sequence[str]], Awaitable[Missed]],
    *,
    dry_run: bool,
) -> int:
    """Do it to the jobs of these ids; return the exit code."""
    if dry_run:
        click.echo(f"would {deed.verb} {count(len(ids), deed.noun)} of {queue}, if they are there")
        return 0
    account = Account(deed, queue, len(ids), name_all=True)
    try:
        rest = iter(ids)
        while batch := list(islice(rest, PAGE)):
            account.add(len(batch), await act(batch))
    finally:
        account.close()
    return 1 if account.missed else 0


async def act_on_matches(
    deed: Deed,
    store: Store,
    queue: str,
    states: Sequence[State],
    filters: Filters,
    act: Callable[[Sequence[Stored]], Awaitable[Missed]],
    *,
    dry_run: bool,
    yes: bool,
    last_lives: bool = False,
    own: bool = True,
) -> int:
    """Do it to what the filters let through and was there at the beginning; return the exit code.

    They are counted first, and the user has to agree.
    """
    survey = Survey()
    async for found in select(store, queue, states, filters, last_lives=last_lives, own=own):
        survey.add(found)
    if not survey.total:
        click.echo(f"no {deed.noun} of {queue} is like that: nothing to do")
        return 0
    what = f"{count(survey.total, deed.noun)} of {queue}"
    for line in [f"{what}:", *survey.lines()] if dry_run or not yes else []:
        click.echo(line, err=not dry_run)
    if dry_run:
        click.echo(f"would {deed.verb} {what}; nothing was done")
        return 0
    if not yes:
        agree(f"{deed.verb} {what}?")
    account = Account(deed, queue, survey.total, name_all=False)
    try:
        async for found in select(store, queue, states, filters, last_lives=last_lives, own=own):
            batch = [one for one in found if survey.covers(one)]
            if batch:
                account.add(len(batch), await act(batch))
    finally:
        account.close()
    return 1 if account.missed else 0


def agree(question: str) -> None:
    """Go on only if the user says yes. Wrong use if there is nobody to be asked."""
    if not is_terminal(sys.stdin):
        _nobody(question)
    with _interruptible():
        agreed = click.confirm(question, err=True)
    if not agreed:
        click.echo("nothing was done", err=True)
        raise SystemExit(1)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Inside it Ctrl-C is heard at once, also if an event loop waits for the answer meanwhile."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _nobody(question: str) -> NoReturn:
    raise WrongUse(
        f"{question} There is no terminal to ask, so nothing was done: -y goes on without asking"
    )
