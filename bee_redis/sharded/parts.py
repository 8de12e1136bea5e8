"""A queue that is spread over shards: which part of it a message is in, and what parts are called.

Pure, and for good: whatever changes here makes messages that are stored already unreachable.
"""

from __future__ import annotations

import re
from binascii import crc_hqx
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TypeVar
from zlib import crc32

from bee_core.checks import check_queue, check_whole
from bee_core.errors import InvalidName, InvalidOption
from bee_core.ids import new_id
from bee_core.message import Draft
from bee_core.stored import Stored

T = TypeVar("T")

MOST_SHARDS = 64
_SLOTS = 16384
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_LONGEST_QUEUE = 47 - len("-00aa")

_TAG = re.compile(r"\{([^{}]+)\}")
_GROUP = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/")
_SCHEDULE = "bee-schedule:"
_INSTANT = re.compile(r"(.+)@\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", re.DOTALL)


def check_shards(shards: int) -> int:
    """The number, or an InvalidOption."""
    if check_whole(shards, "shards", least=1) > MOST_SHARDS:
        raise InvalidOption(f"shards must be at most {MOST_SHARDS}, not {shards}")
    return shards


def part_of(id: str, shards: int) -> int:
    """The part that a message is in, by its id, and that a key is in, by its text.

    What belongs together is in one part: ids and keys with the same `{tag}`, the jobs of a group
    that bee gave its id, and a schedule and its jobs.
    """
    return crc32(_stem(id).encode()) % shards


def _stem(id: str) -> str:
    if "{" in id and (tag := _TAG.search(id)):
        return tag[1]
    if id[36:37] == "/" and (group := _GROUP.match(id)):
        return group[1]
    if id.startswith(_SCHEDULE):
        return id[len(_SCHEDULE) :]
    if id[-1] == "Z" and (instant := _INSTANT.fullmatch(id)):
        return instant[1]
    return id


def id_in(part: int, shards: int) -> str:
    """A fresh id that is in this part."""
    while part_of(id := new_id(), shards) != part:
        pass
    return id


@lru_cache(maxsize=1024)
def part_names(queue: str, shards: int) -> tuple[str, ...]:
    """What the parts of a queue are called: a name each, that an unsharded queue could have.

    The name decides on the slot. Its last two letters are those with which part k of n is nearest
    to the middle of the k-th of n equal stretches of slots: so each node of a cluster has its share
    of the parts.
    """
    if len(check_queue(queue)) > _LONGEST_QUEUE:
        raise InvalidName(
            f"{queue!r}: the name of a queue on shards has at most {_LONGEST_QUEUE} characters"
        )
    return tuple(_part_name(queue, part, shards) for part in range(shards))


def queue_of(name: str) -> str:
    """The queue that a part belongs to, by the part's name."""
    return name.rpartition("-")[0]


def part_number(name: str) -> int:
    """Which part of its queue it is, by its name."""
    return int(name[-4:-2])


def _part_name(queue: str, part: int, shards: int) -> str:
    middle = (2 * part + 1) * _SLOTS // (2 * shards)
    names = (f"{queue}-{part:02}{first}{second}" for first in _DIGITS for second in _DIGITS)
    return min(names, key=lambda name: abs(crc_hqx(name.encode(), 0) % _SLOTS - middle))


def split(items: Iterable[T], id: Callable[[T], str], shards: int) -> dict[int, list[T]]:
    """Items by the part that they belong to, in their order."""
    found: dict[int, list[T]] = {}
    for item in items:
        found.setdefault(part_of(id(item), shards), []).append(item)
    return found


def check_ties(messages: Iterable[Draft | Stored], shards: int) -> None:
    """Raise an InvalidOption unless each is in the part of its key and of whom it reports to."""
    for message in messages:
        if message.key is None and message.reports_to is None:
            continue
        part = part_of(message.id, shards)
        if message.key is not None and part_of(message.key, shards) != part:
            raise InvalidOption(
                f"{message.id!r} is not on the shard of its key {message.key!r}, so that the "
                "key's limit would not hold: leave the id to bee, or write "
                f"{_tagged(message.key)!r} in it"
            )
        to = message.reports_to
        if to is not None and part_of(to, shards) != part:
            raise InvalidOption(
                f"{message.id!r} is not on the shard of {to!r}, which it reports to: leave the ids "
                f"of a group to bee, or give all of them one tag, such as {_tagged(to)!r}"
            )


def check_together(id: str, drafts: Sequence[Draft], shards: int) -> None:
    """Raise an InvalidOption unless these are in the part of that id, with all they are tied to."""
    part = part_of(id, shards)
    for draft in drafts:
        if part_of(draft.id, shards) != part:
            raise InvalidOption(
                f"{draft.id!r} is not on the shard of {id!r}, so both cannot be one step: leave "
                f"its id to bee, give both one tag such as {_tagged(id)!r}, or send it by itself"
            )
    check_ties(drafts, shards)


def _tagged(text: str) -> str:
    return text if _TAG.search(text) else f"{{{text.replace('{', '').replace('}', '')}}}"
