"""Judges a recorded run of many processes: what a broker has promised, did it keep?

A history is a list of records: which process asked for what, when, and what it was answered, by a
clock that they share. `bee_core.testing.recording` writes one as lines of JSON; `read` reads it.
`check` is a pure function of it. It needs no clock of the store's, and is fair: what was asked and
never answered, because the process was killed or the connection broke, may have happened or not, at
any time after.

It takes for granted that an id is sent for one message only (again only if the answer was lost),
that nobody cancels or restores, and that settlements count no deliveries and no stalls.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

Verb: TypeAlias = Literal["send", "lease", "extend", "settle"]
Event: TypeAlias = Literal["asked", "answered"]
Way: TypeAlias = Literal["delete", "archive", "repeat"]
Kind: TypeAlias = Literal[
    "lost",
    "in two places",
    "never sent",
    "two holders",
    "settled twice",
    "leased after its end",
    "token",
    "redelivered late",
    "counters",
]


class Item(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a call is about: a message, and what is known of it."""

    id: str
    token: int = 0
    way: Way | None = None
    """How it is settled."""
    errors: int = 0
    """Lease: those so far. Settle: those it adds."""
    deliveries: int = 0
    stalls: int = 0


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """Somebody asked for something, or was answered. `call` binds the two together.

    asked     all that was asked for; of a lease, nothing
    answered  what was done: the ids that were accepted, the leases, the receipts that were not lost
    """

    who: str
    call: int
    at: float
    event: Event
    verb: Verb
    items: Sequence[Item] = ()
    duration: float = 0.0


class Fault(msgspec.Struct, frozen=True):
    """A promise that was broken."""

    kind: Kind
    id: str
    text: str


def read(directory: Path) -> list[Record]:
    """All records of all files `*.history`. A last line that was cut off is none."""
    decoder = msgspec.json.Decoder(Record)
    lines = [
        line
        for path in sorted(directory.glob("*.history"))
        for line in path.read_bytes().split(b"\n")[:-1]
    ]
    return sorted((decoder.decode(line) for line in lines), key=lambda record: record.at)


def check(
    records: Iterable[Record], left: Mapping[str, Sequence[str]], *, within: float | None = 1.0
) -> list[Fault]:
    """The faults of a run that is over.

    `left` says where each id is that the store still has: "archived", or anything else for one that
    is live; an id that is in two places has two words. `within` is how many seconds after its lease
    a message is leased again at the latest: in a run in which somebody always asks for more than
    there is. None: it was not such a run.
    """
    lives = _lives(records)
    faults = [fault for life in lives.values() for fault in _faults(life, left, within)]
    faults += [
        Fault("never sent", id, f"is {' and '.join(places)}, and nobody has sent it")
        for id, places in left.items()
        if id not in lives
    ]
    return faults + _tokens_given_twice(lives)


@dataclass(frozen=True)
class _Call:
    """One call, about one message. `ended` is infinite if it was never answered."""

    verb: Verb
    item: Item
    who: str
    began: float
    ended: float = math.inf
    applied: bool | None = None
    """None: nobody knows."""
    duration: float = 0.0


@dataclass
class _Life:
    """All that was done about one id."""

    id: str
    over: float
    """When the history ends."""
    unknown_leases: Sequence[float]
    """When leases began of which nobody knows what they gave; in order."""
    calls: list[_Call] = field(default_factory=list)

    def of(self, verb: Verb) -> Iterator[_Call]:
        return (call for call in self.calls if call.verb == verb)

    def about(self, token: int) -> list[_Call]:
        return [call for call in self.calls if call.item.token == token]

    def leases(self) -> list[_Call]:
        """In the order of their tokens."""
        return sorted(self.of("lease"), key=lambda call: call.item.token)

    def ends(self) -> list[_Call]:
        """Settlements that have, or may have, ended the message."""
        settled = [call for call in self.of("settle") if call.applied is not False]
        return [call for call in settled if call.item.way != "repeat"]


def _lives(records: Iterable[Record]) -> dict[str, _Life]:
    asked: dict[tuple[str, int], Record] = {}
    pairs: list[tuple[Record, Record | None]] = []
    over = 0.0
    for record in records:
        over = max(over, record.at)
        if record.event == "asked":
            asked[record.who, record.call] = record
        else:
            pairs.append((asked.pop((record.who, record.call)), record))
    pairs += [(record, None) for record in asked.values()]
    unknown = sorted(one.at for one, answer in pairs if answer is None and one.verb == "lease")
    lives: dict[str, _Life] = {}
    for question, answer in pairs:
        for call in _calls(question, answer):
            life = lives.setdefault(call.item.id, _Life(call.item.id, over, unknown))
            life.calls.append(call)
    return lives


def _calls(asked: Record, answered: Record | None) -> Iterator[_Call]:
    """What one call has done, message by message."""
    if answered is None:
        for item in asked.items:
            yield _Call(asked.verb, item, asked.who, asked.at, duration=asked.duration)
        return
    done = {(item.id, item.token) for item in answered.items}
    for item in answered.items if asked.verb == "lease" else asked.items:
        applied = (item.id, item.token) in done
        times = (asked.at, answered.at)
        yield _Call(asked.verb, item, asked.who, *times, applied, asked.duration)


def _faults(
    life: _Life, left: Mapping[str, Sequence[str]], within: float | None
) -> Iterator[Fault]:
    yield from _place(life, left.get(life.id, ()))
    yield from _settled_once(life)
    leases = life.leases()
    for before, after in pairwise(leases):
        yield from _tokens_grow(life, before, after)
        yield from _one_holder(life, before, after)
    yield from _in_time(life, leases, bool(left.get(life.id)), within)
    for lease in leases:
        yield from _counters(life, lease, leases)


def _place(life: _Life, places: Sequence[str]) -> Iterator[Fault]:
    """Every accepted id ended in exactly one place."""
    sent = list(life.of("send"))
    if not sent:
        yield Fault("never sent", life.id, "was leased, and nobody has sent it")
    accepted = any(call.applied for call in sent)
    ended = [call for call in life.ends() if call.applied]
    archived = any(call.item.way == "archive" for call in life.ends())
    if len(places) > 1:
        yield Fault("in two places", life.id, f"is {' and '.join(places)}")
    if accepted and not places and not life.ends():
        yield Fault("lost", life.id, "was accepted, is not there, and nobody has ended it")
    if not places and any(call.item.way == "archive" for call in ended):
        yield Fault("lost", life.id, "was archived, and is not there")
    if places and ended:
        wanted = {call.item.way for call in ended}
        if wanted == {"delete"} or (wanted == {"archive"} and "archived" not in places):
            way = " and ".join(sorted(str(one) for one in wanted))
            yield Fault("in two places", life.id, f"was ended ({way}), and is {places[0]}")
    if "archived" in places and not archived:
        yield Fault("in two places", life.id, "is archived, and nobody has archived it")


def _settled_once(life: _Life) -> Iterator[Fault]:
    """No token was settled twice, and nothing happened to a message after its end."""
    settled = [call for call in life.of("settle") if call.applied]
    for token, times in Counter(call.item.token for call in settled).items():
        if times > 1:
            yield Fault("settled twice", life.id, f"token {token} was settled {times} times")
    ended = [call for call in settled if call.item.way != "repeat"]
    if len({call.item.token for call in ended}) > 1:
        yield Fault("settled twice", life.id, f"ended with tokens {[c.item.token for c in ended]}")
    for end in ended:
        for call in life.of("lease"):
            if call.began > end.ended:
                text = f"token {call.item.token} was given {call.began - end.ended:.3f} s after"
                yield Fault("leased after its end", life.id, text)


def _tokens_grow(life: _Life, before: _Call, after: _Call) -> Iterator[Fault]:
    """Who asks later gets a higher token: `before` has the lower one."""
    if before.began > after.ended:
        text = f"token {before.item.token} was given after {after.item.token}"
        yield Fault("token", life.id, text)


def _one_holder(life: _Life, before: _Call, after: _Call) -> Iterator[Fault]:
    """The earlier token was of no use any more when the later one was given; and not before."""
    mine = [c for c in life.about(before.item.token) if c.verb != "lease"]
    for call in mine:
        if call.applied and call.began > after.ended:
            text = f"token {before.item.token} was good though {after.item.token} was given"
            yield Fault("two holders", life.id, f"{call.verb}: {text}")
    settled = [c for c in mine if c.verb == "settle" and c.applied is not False]
    let_go = any(c.began < after.ended for c in settled)
    extensions = [c for c in mine if c.verb == "extend" and c.applied is not False]
    until = before.began + before.duration
    for call in extensions:
        if call.applied and call.ended < after.began:
            until = call.began + call.duration
    unsure = [c.began + c.duration for c in extensions if c.ended >= after.began]
    if not let_go and after.ended < min([until, *unsure]):
        early = min([until, *unsure]) - after.ended
        text = f"token {after.item.token} was given {early:.3f} s before the lease ran out"
        yield Fault("two holders", life.id, text)


def _in_time(
    life: _Life, leases: Sequence[_Call], is_left: bool, within: float | None
) -> Iterator[Fault]:
    """A lease that ran out was followed by another, soon."""
    if within is None:
        return
    nexts: list[_Call | None] = [*leases[1:], None]
    for lease, after in zip(leases, nexts, strict=False):
        mine = [c for c in life.about(lease.item.token) if c.applied is not False]
        if any(call.verb == "settle" for call in mine):
            continue
        unanswered = any(call.ended == math.inf for call in mine)
        latest = max(min(call.ended, life.over) + call.duration for call in mine)
        again = after.ended if after is not None else life.over
        late = again - latest - within
        missed = bisect_left(life.unknown_leases, latest + within)
        if late > 0 and not unanswered and not missed and (after is not None or is_left):
            text = f"token {lease.item.token} ran out {late + within:.3f} s before that"
            yield Fault("redelivered late", life.id, text)


def _counters(life: _Life, lease: _Call, leases: Sequence[_Call]) -> Iterator[Fault]:
    """What a lease says of the past is what has happened."""
    token, told = lease.item.token, lease.item
    known = sum(other.item.token <= token for other in leases)
    hidden = bisect_left(life.unknown_leases, lease.ended)
    if not known <= told.deliveries <= known + hidden:
        text = f"token {token} is delivery {told.deliveries}, but {known} to {known + hidden}"
        yield Fault("counters", life.id, f"{text} are known")
    repeats = [c for c in life.of("settle") if c.item.way == "repeat" and c.item.token < token]
    sure = [c for c in repeats if c.applied]
    perhaps = [c for c in repeats if c.applied is None]
    returned = told.deliveries - 1 - told.stalls
    if not len(sure) <= returned <= len(sure) + len(perhaps):
        text = f"token {token}: {told.deliveries} deliveries, {told.stalls} stalls"
        yield Fault("counters", life.id, f"{text}, but it was put back {len(sure)} times")
    least = sum(call.item.errors for call in sure)
    most = least + sum(call.item.errors for call in perhaps)
    if not least <= told.errors <= most:
        text = f"token {token}: {told.errors} errors, but {least} to {most} were counted"
        yield Fault("counters", life.id, text)


def _tokens_given_twice(lives: Mapping[str, _Life]) -> list[Fault]:
    given: defaultdict[int, list[str]] = defaultdict(list)
    for life in lives.values():
        for lease in life.of("lease"):
            given[lease.item.token].append(life.id)
    return [
        Fault("token", ids[0], f"token {token} was given {len(ids)} times, for {sorted(set(ids))}")
        for token, ids in given.items()
        if len(ids) > 1
    ]
