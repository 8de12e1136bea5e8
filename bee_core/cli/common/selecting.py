"""Which jobs a command is about: ids as they were typed, or filters, looked for page by page."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar, get_args

import click
import msgspec

from bee_core.broker import Store
from bee_core.checks import check_ids, check_queue
from bee_core.cli.common.errors import NotThere, WrongUse
from bee_core.cli.common.units import as_seconds
from bee_core.codec import KIND_HEADER, kind_of
from bee_core.fingerprint import fingerprint
from bee_core.message import Reason
from bee_core.stored import State, Stored

Command = TypeVar("Command", bound=Callable[..., Any])
T = TypeVar("T")

PAGE = 200
"""Messages that are looked at, or acted on, at once."""
LIVE = (State.READY, State.DELAYED, State.LEASED, State.BLOCKED)
_MOST_NAMED = 50
_AT_ONCE = 8


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """What a job must be like. What is None is all the same."""

    kind: str | None = None
    reason: str | None = None
    since: float | None = None
    error: str | None = None
    fingerprint: str | None = None

    @property
    def takes_all(self) -> bool:
        """Whether every job will do."""
        return self == Filters()

    def match(self, stored: Stored, now: float) -> bool:
        """Whether a job is like that."""
        if self.since is not None and not self.is_recent(stored, now):
            return False
        if self.kind is not None and self.kind != kind_of(stored.headers, stored.body):
            return False
        if self.reason is not None and self.reason != _reason(stored):
            return False
        if self.error is not None and self.error.casefold() not in _errors(stored).casefold():
            return False
        return self.fingerprint is None or (
            _reason(stored) is not None and self.fingerprint == fingerprint(stored).digest
        )

    def is_recent(self, stored: Stored, now: float) -> bool:
        """Whether it was archived, or if it is live sent, as lately as was asked for."""
        at = stored.sent_at if stored.archived_at is None else stored.archived_at
        return self.since is None or at >= now - self.since


def filter_options(command: Command) -> Command:
    """`--kind`, `--reason`, `--since`, `--error`, `--fingerprint`."""
    for option in reversed(
        [
            click.option("--kind", metavar="KIND", help="Jobs of this kind: send_email."),
            click.option(
                "--reason",
                type=click.Choice(get_args(Reason)),
                metavar="REASON",
                help="Why it ended, or was repeated: failed, timed_out, ...",
            ),
            click.option(
                "--since",
                callback=as_seconds,
                metavar="TIME",
                help="Archived (if live: sent) not longer ago: 1h.",
            ),
            click.option("--error", metavar="TEXT", help="Its error has this text in it."),
            click.option(
                "--fingerprint",
                callback=_as_fingerprint,
                metavar="F",
                help="Failed alike: as bee list --group shows it.",
            ),
        ]
    ):
        command = option(command)
    return command


def filters_of(options: Mapping[str, Any]) -> Filters:
    """The filters among the options of a command."""
    return Filters(**{name: options[name] for name in Filters.__struct_fields__})


def ids_of(words: Sequence[str]) -> list[str]:
    """The ids that were typed, each once; `-` stands for one a line from standard input."""
    ids: dict[str, None] = {}
    for word in words:
        if word == "-":
            sys.stdin.reconfigure(errors="surrogateescape")  # type: ignore[union-attr]
            lines = (line.rstrip("\r\n") for line in sys.stdin)
            ids.update(dict.fromkeys(line for line in lines if line))
        else:
            ids[word] = None
    if words and not ids:
        raise WrongUse("no id came from standard input, so there is nothing to do")
    check_ids(list(ids))
    return list(ids)


async def check_queues(store: Store, queues: Sequence[str]) -> None:
    """NotThere for a name that nobody has ever used, most likely a typing error."""
    for queue in queues:
        check_queue(queue)
    known = await store.queues()
    for queue in queues:
        if queue in known or (await store.stats(queue)).created or await store.workers(queue):
            continue
        like = get_close_matches(queue, known, n=1)
        meant = f" (do you mean {like[0]}?)" if like else ""
        more = f" and {len(known) - _MOST_NAMED} more" if len(known) > _MOST_NAMED else ""
        there = f"there are: {', '.join(known[:_MOST_NAMED])}{more}" if known else "there is none"
        raise NotThere(f"no queue {queue!r} in this store{meant}; {there}")


async def look_at_each(
    store: Store, queues: Sequence[str], look: Callable[[str], Awaitable[T]]
) -> list[T]:
    """What a look at each of these queues gives, or at all if none is named; some at once."""
    free = asyncio.Semaphore(_AT_ONCE)

    async def go(queue: str) -> T:
        async with free:
            return await look(queue)

    return await asyncio.gather(*map(go, list(dict.fromkeys(queues)) or await store.queues()))


async def pages(store: Store, queue: str, state: State) -> AsyncIterator[Sequence[Stored]]:
    """All messages in one state, so many at a time."""
    after: str | None = None
    while True:
        page = await store.scan(queue, state, after=after, limit=PAGE)
        if page.items:
            yield page.items
        if (after := page.after) is None:
            return


async def select(
    store: Store,
    queue: str,
    states: Sequence[State],
    filters: Filters,
    *,
    last_lives: bool = False,
    own: bool = True,
) -> AsyncIterator[list[Stored]]:
    """The messages in these states that the filters let through, so many at a time.

    `last_lives` leaves out archived ones whose id was archived once more later on, also if that one
    is not let through: it takes 70 bytes of memory for each archived message. Without `own`, what
    is bee's own (schedules, reports of failures) is left out unless its kind is asked for.
    """
    now = time.time()
    seen: set[int] = set()
    for state in states:
        async for page in pages(store, queue, state):
            found = []
            for one in page:
                if last_lives:
                    if (mark := hash(one.id)) in seen:
                        continue
                    seen.add(mark)
                if not own and KIND_HEADER in one.headers and filters.kind is None:
                    continue
                if filters.match(one, now):
                    found.append(one)
            if found:
                yield found
            if state is State.ARCHIVED and not filters.is_recent(page[-1], now):
                return  # newest first: the rest is older still


def _reason(stored: Stored) -> str | None:
    if stored.note is not None:
        return stored.note.reason
    return "ruled" if stored.state is State.ARCHIVED else None


def _errors(stored: Stored) -> str:
    """All that is known of what went wrong with a job last."""
    said = [] if stored.note is None else [stored.note.detail]
    return "\n".join(said + [one.summary for one in stored.history[-1:]])


def _as_fingerprint(
    context: click.Context, option: click.Parameter, given: str | None
) -> str | None:
    if given is not None and not re.fullmatch(r"[0-9a-f]{8}", given):
        raise click.BadParameter(f"{given!r} is none: eight digits, as bee list --group shows them")
    return given
