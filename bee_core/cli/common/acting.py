"""Doing something to many jobs: counted first, agreed on, done in batches, accounted for.

What a command does is one function, from a batch to what was not done, and why. The rest is the
same for all of them.
"""

from __future__ import annotations

import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from typing import Any, NamedTuple, NoReturn, TypeAlias, TypeVar

import click
import msgspec

from bee_core.broker import Store
from bee_core.cli.common.errors import WrongUse, told_plainly
from bee_core.cli.common.selecting import PAGE, Filters, filters_of, ids_of, select
from bee_core.cli.common.tables import is_terminal
from bee_core.cli.common.telling import Progress
from bee_core.cli.common.words import count, one_line
from bee_core.fingerprint import Fingerprint, fingerprint
from bee_core.stored import State, Stored

Command = TypeVar("Command", bound=Callable[..., None])
Missed: TypeAlias = Sequence[tuple[str, str]]
"""Ids to which it was not done, each with the reason."""

UNKNOWN = "unknown here: done and deleted, or never sent to this queue"
CHANGED = "changed meanwhile, so it was left alone: try again"

_GROUPS = 1000
_SHOWN = 5
_NAMED = 20


class Deed(NamedTuple):
    """What a command does to jobs, in words: `Deed("retry", "retried", "archived job")`."""

    verb: str
    done: str
    noun: str


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """Of which jobs it was asked for, and how."""

    queue: str
    ids: Sequence[str] = ()
    """These, or if there are none, those that the filters let through."""
    filters: Filters = Filters()
    dry_run: bool = False
    yes: bool = False


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
        self._progress = Progress(total)
        self.done = 0
        self.missed = 0

    def add(self, asked: int, missed: Missed) -> None:
        """A batch is over."""
        self.done += asked - len(missed)
        if missed:
            self._progress.clear()
        for id, why in missed:
            self.missed += 1
            if self._name_all or self.missed <= _NAMED:
                click.echo(f"{one_line(id)}: {why}", err=True)
        over = self.done + self.missed
        self._progress.show(over, f"{over} of {self._total}")

    def close(self) -> None:
        """Say what came of it."""
        self._progress.clear()
        if not self._name_all and self.missed > _NAMED:
            click.echo(f"and {self.missed - _NAMED} more", err=True)
        not_done = f", {self.missed} not" if self.missed else ""
        noun = self._deed.noun
        click.echo(f"{self._deed.done} {count(self.done, noun)} of {self._queue}{not_done}")


dry_run_option = click.option("--dry-run", is_flag=True, help="Only say how many there are.")
yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask.")


def sure_options(command: Command) -> Command:
    """`--all`, `--dry-run`, `-y`."""
    every = click.option("--all", "everything", is_flag=True, help="Every one of them.")
    return every(dry_run_option(yes_option(command)))


def order_of(
    queue: str, words: Sequence[str], options: Mapping[str, Any], *, narrowed: bool = False
) -> Order:
    """What was asked for; wrong use unless it is clear which jobs are meant.

    `options` are those of `filter_options` and `sure_options`; `narrowed` is whether another option
    has made a choice.
    """
    filters, everything = filters_of(options), options["everything"]
    chosen = narrowed or not filters.takes_all
    if words and (chosen or everything):
        raise WrongUse("give ids, or filters, or --all: not several of them")
    if not words and not chosen and not everything:
        raise WrongUse("say which: ids (- reads them from standard input), filters, or --all")
    with told_plainly():
        ids = ids_of(words)
    dry_run, yes = options["dry_run"], options["yes"]
    return Order(queue=queue, ids=ids, filters=filters, dry_run=dry_run, yes=yes)


async def act_on_ids(
    deed: Deed, order: Order, act: Callable[[Sequence[str]], Awaitable[Missed]]
) -> int:
    """Do it to the jobs of the ids; return the exit code."""
    queue, ids = order.queue, order.ids
    if order.dry_run:
        click.echo(f"would {deed.verb} {count(len(ids), deed.noun)} of {queue}, if they are there")
        return 0
    with closing(Account(deed, queue, len(ids), name_all=True)) as account:
        rest = iter(ids)
        while batch := list(islice(rest, PAGE)):
            account.add(len(batch), await act(batch))
    return 1 if account.missed else 0


async def act_on_matches(
    deed: Deed,
    order: Order,
    store: Store,
    states: Sequence[State],
    act: Callable[[Sequence[Stored]], Awaitable[Missed]],
    *,
    last_lives: bool = False,
    own: bool = True,
) -> int:
    """Do it to what the filters let through and was there at the beginning; return the exit code.

    They are counted first, and the user has to agree. `last_lives` and `own` are as for `select`.
    """
    queue, survey = order.queue, Survey()

    def look() -> AsyncIterator[list[Stored]]:
        return select(store, queue, states, order.filters, last_lives=last_lives, own=own)

    async for found in look():
        survey.add(found)
    if not survey.total:
        click.echo(f"no {deed.noun} of {queue} is like that: nothing to do")
        return 0
    if not _agreed(deed, order, survey):
        return 0
    with closing(Account(deed, queue, survey.total, name_all=False)) as account:
        async for found in look():
            if batch := [one for one in found if survey.covers(one)]:
                account.add(len(batch), await act(batch))
    return 1 if account.missed else 0


def _agreed(deed: Deed, order: Order, survey: Survey) -> bool:
    """Show what there is, and ask. Whether to go on."""
    what = f"{count(survey.total, deed.noun)} of {order.queue}"
    if order.dry_run or not order.yes:
        for line in (f"{what}:", *survey.lines()):
            click.echo(line, err=not order.dry_run)
    return agreed(f"{deed.verb} {what}", dry_run=order.dry_run, yes=order.yes)


def agreed(what: str, *, dry_run: bool, yes: bool) -> bool:
    """Whether to do it. The user is asked, unless it is clear, and may end the command here."""
    if dry_run:
        click.echo(f"would {what}; nothing was done")
    elif not yes:
        _agree(f"{what}?")
    return not dry_run


def _agree(question: str) -> None:
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
