"""Between bee's data and the arguments and rows of the functions in `sql/`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple, TypeVar, assert_never, cast

from psycopg.rows import TupleRow

from bee_core.disposition import Archive, Delete, Reschedule
from bee_core.message import (
    NO_HEADERS,
    Counters,
    Draft,
    Lease,
    Note,
    Rate,
    Reason,
    Receipt,
    Report,
    Sent,
    Settlement,
    Throttle,
)
from bee_core.packing import is_plain, pack_detail, pack_headers, pack_rule, unpack_headers
from bee_core.stored import Episode, Holder, State, Stored
from bee_core.text import readable
from bee_pg.arrays import Packed, blobs, numbers, texts
from bee_pg.migrate import quoted
from bee_pg.straight import Straight

T = TypeVar("T")

_FIRST = Counters(deliveries=1)
"""Those of a message that is leased for the first time."""

# The arguments behind the queue, each with its type: the server has none to guess.
SEND = (
    "%b::text[], %b::text[], %b::float8[], %b::int2[], %b::bytea[], %b::bytea[], "
    "%b::text[], %b::int4[], %b::text[]"
)
SETTLE = "%b::text[], %b::int8[], %b::text"
SETTLE_ALIKE = f"{SETTLE}, null, null, %b::text[], %b::bytea[]"
SETTLE_FULLY = (
    f"{SETTLE}, %b::float8[], %b::int4[], %b::text[], %b::bytea[], %b::int8[], {SEND}, "
    "%b::bytea[], %b::float8[], %b::text[]"
)
LEASE = (
    "%b::int4, %b::float8, %b::text, %b::float8[], %b::float8, %b::text, %b::float8, "
    "%b::int4, %b::int8, %b::float8, %b::int8, %b::float8, %b::bool[]"
)

LETTERS = {"c": Sent.CREATED, "k": Sent.KEPT, "u": Sent.UPDATED, "b": Sent.BLOCKED}
"""What `send.sql` says was done with each draft."""


@cache
def call(schema: str, verb: str, types: str) -> str:
    """The statement that calls a function of bee's schema."""
    return f"select * from {quoted(schema).replace('%', '%%')}.{verb}({types})"


def send_statement(
    schema: str, queue: str, drafts: Sequence[Draft], straight: bool = False
) -> tuple[str, list[Any]]:
    """The statement that sends drafts, and its arguments. It returns what `send.sql` does; that for
    one plain draft returns nothing if it was kept.

    `straight` says that it goes over a connection of bee's own, to the server itself.
    """
    if straight and len(drafts) == 1 and is_plain(drafts[0]):
        return _send_one(schema), [queue, drafts[0].id, drafts[0].body, queue, queue]
    ids = [draft.id for draft in drafts]
    if ids == sorted(ids) and all(map(is_plain, drafts)):  # by code point is by the bytes of UTF-8
        return _send_plain(schema), [queue, texts(ids), blobs([draft.body for draft in drafts])]
    return call(schema, "send", f"%b::text, {SEND}"), [queue, *draft_columns(drafts)]


@cache
def _send_one(schema: str) -> Straight:
    name = quoted(schema).replace("%", "%%")
    forms = {"{schema}": name, "'{schema}": "'" + name.replace("'", "''")}
    text = re.sub("^--.*\n", "", read_statement("send_one"), flags=re.MULTILINE)
    return Straight(re.sub("'?{schema}", lambda found: forms[found[0]], text))


def read_statement(name: str) -> str:
    """What is in a file of `statements/`."""
    return files("bee_pg").joinpath("statements", f"{name}.sql").read_text(encoding="utf-8")


@cache
def _send_plain(schema: str) -> Straight:
    """Not `select * from`: one value needs no rows to be collected."""
    name = quoted(schema).replace("%", "%%")
    return Straight(f"select {name}.send_plain(%b::text, %b::text[], %b::bytea[]), null")


def draft_columns(drafts: Sequence[Draft]) -> list[Packed | list[Any] | None]:
    """Drafts as the nine arrays of `send.sql`. Of plain ones, ids and bodies say all."""
    if all(is_plain(draft) for draft in drafts):
        ids = texts([draft.id for draft in drafts])
        bodies = blobs([draft.body for draft in drafts])
        return [ids, None, None, None, None, bodies, None, None, None]
    return [
        [draft.id for draft in drafts],
        [pack_rule(draft.if_taken) for draft in drafts],
        [float(draft.delay) for draft in drafts],
        [draft.priority for draft in drafts],
        [pack_headers(draft.headers) or None for draft in drafts],
        [draft.body for draft in drafts],
        _if_any([draft.key for draft in drafts]),
        _if_any([draft.awaits or None for draft in drafts]),
        _if_any([draft.reports_to for draft in drafts]),
    ]


def receipt_columns(receipts: Sequence[Receipt]) -> list[Packed]:
    """Receipts as two arrays. One that cannot be is not an error: it is lost."""
    ids = [receipt.id for receipt in receipts]
    tokens = [receipt.token for receipt in receipts]
    together = "".join(ids)
    is_usual = together.isascii() and "\0" not in together
    if is_usual and -(2**63) <= min(tokens, default=0) and max(tokens, default=0) < 2**63:
        return [texts(ids), numbers(tokens)]
    return [texts(list(map(_id, receipts))), numbers(list(map(_token, receipts)))]


def settlement_columns(settlements: Sequence[Settlement]) -> tuple[str, list[Any]]:
    """Settlements as the arguments of `settle.sql`, and their types."""
    receipts = receipt_columns([settlement.receipt for settlement in settlements])
    notes = [settlement.note for settlement in settlements]
    first = notes[0] if notes else None
    if notes.count(first) == len(notes) and _only_delete(settlements):
        ways = "D" * len(settlements)
        if first is None:
            return SETTLE, [*receipts, ways]
        return SETTLE_ALIKE, [*receipts, ways, [first.reason], [pack_detail(first)]]
    owners = [n for n, settlement in enumerate(settlements, 1) for _ in settlement.then]
    drafts = [draft for settlement in settlements for draft in settlement.then]
    sent: Sequence[Any] = draft_columns(drafts) if drafts else [None] * 9
    return SETTLE_FULLY, [
        *receipts,
        "".join(_way(settlement) for settlement in settlements),
        [_delay(settlement) for settlement in settlements],
        [count for settlement in settlements for count in counts(settlement.counters)],
        [note.reason if note else None for note in notes],
        [pack_detail(note) if note else None for note in notes],
        owners,
        *sent,
        _if_any([settlement.result or None for settlement in settlements]),
        _if_any([float(settlement.keep) or None for settlement in settlements]),
        _if_any([settlement.summary or None for settlement in settlements]),
    ]


class Leased(NamedTuple):
    """What `lease.sql` returns.

    leases  the messages, in order
    lasts   of each priority among them, when the last one was due, in seconds since the epoch
    at      when they were leased, by the same clock
    took    the seconds that the first look at the line took; 0 if there was none
    quiet   for how many seconds a rate allows no more
    """

    leases: list[Lease]
    lasts: dict[int, float]
    at: float = 0.0
    took: float = 0.0
    quiet: float = 0.0


def leased(rows: list[TupleRow]) -> Leased:
    """What the rows of `lease.sql` say. The last one is about all of them."""
    if not rows:
        return Leased([], {})
    at, took, quiet = rows.pop()[10:]
    leases = [
        Lease(
            Receipt(id, token),
            body,
            NO_HEADERS if headers is None else unpack_headers(headers),
            _FIRST if counters is None else _counters(counters),
            sent_at,
            at,
            key,
            reports_to,
        )
        for id, token, body, headers, sent_at, counters, key, reports_to, _, _, _, _, _ in rows
    ]
    # By priority, then by time: as a rule all have one priority, and the last row says it all.
    alike = bool(rows) and rows[0][8] == rows[-1][8]
    lasts = {row[8]: row[9] for row in (rows[-1:] if alike else rows)}
    return Leased(leases, lasts, at, took or 0.0, quiet or 0.0)


def throttle_columns(throttle: Throttle) -> list[float | None]:
    """A throttle as the last five arguments of `lease.sql`."""
    per_key = None if throttle.per_key is None else min(throttle.per_key, 2**31 - 1)
    return [per_key, *_rate(throttle.rate), *_rate(throttle.key_rate)]


def said_column(receipts: Sequence[Receipt], said: Mapping[str, str]) -> list[bytes | None] | None:
    """What is said, by id, of each receipt's message; None if nothing is."""
    found = [said.get(receipt.id) for receipt in receipts]
    return _if_any(
        [None if text is None else text.encode("utf-8", "backslashreplace") for text in found]
    )


def report(row: TupleRow) -> Report:
    """A report from a row of `reports.sql` or `results.sql`."""
    id, reason, detail, body = row
    return Report(id, Note(cast("Reason", reason), readable(detail)), body)


def stored(row: TupleRow) -> Stored:
    """A message as an operator sees it, from a row of the type `stored`."""
    id, incarnation, state, body, headers, priority, *counts = row[:12]
    sent_at, due_at, holder, leased_until, reason, detail, archived_at = row[12:19]
    key, awaits, reports_to, progress, leased_at, remark, history = row[19:26]
    return Stored(
        id=id,
        incarnation=incarnation,
        state=State(state),
        body=body,
        headers=unpack_headers(headers),
        priority=priority,
        counters=_counters(counts),
        sent_at=sent_at,
        due_at=due_at,
        holder=holder,
        leased_until=leased_until,
        note=Note(cast("Reason", reason), readable(detail or b"")) if reason else None,
        archived_at=archived_at,
        key=key,
        awaits=awaits or 0,
        reports_to=reports_to,
        progress=None if progress is None else readable(progress),
        leased_at=leased_at,
        remark=None if remark is None else readable(remark),
        history=tuple(_episode(*told) for told in history or ()),
        token=row[28],
    )


def holder(row: TupleRow) -> Holder:
    """Somebody who works on a queue, from a row of `workers.sql`."""
    name, leases, leased_until, since, until, about = row
    return Holder(name, leases, leased_until, since, until, readable(about))


def _episode(
    token: int,
    holder: str,
    leased_at: float,
    ended_at: float,
    reason: Reason,
    summary: str,
    due_at: float | None,
    remark: str | None,
) -> Episode:
    """An episode from what `told.sql` says of it."""
    return Episode(
        token=token,
        holder=holder,
        leased_at=leased_at,
        ended_at=ended_at,
        reason=reason,
        summary=summary,
        due_at=due_at,
        remark=None if remark is None else readable(bytes.fromhex(remark)),
    )


def _counters(counts: Sequence[int]) -> Counters:
    return Counters(**dict(zip(Counters.__struct_fields__, counts, strict=True)))


def _only_delete(settlements: Sequence[Settlement]) -> bool:
    """Whether nothing is to be sent, and nothing to be kept or reported but the note."""
    for one in settlements:
        if one.then or one.result or one.keep or not isinstance(one.disposition, Delete):
            return False
    return True


def _if_any(values: list[T | None]) -> list[T | None] | None:
    return values if any(value is not None for value in values) else None


def _rate(rate: Rate | None) -> tuple[int | None, float | None]:
    return (None, None) if rate is None else (min(rate.times, 2**62), rate.seconds)


def _way(settlement: Settlement) -> str:
    match settlement.disposition:
        case Delete():
            return "D"
        case Archive():
            return "A"
        case Reschedule(front=True):
            return "F"
        case Reschedule():
            return "R"
        case _:
            assert_never(settlement.disposition)


def _delay(settlement: Settlement) -> float:
    disposition = settlement.disposition
    return float(disposition.delay) if isinstance(disposition, Reschedule) else 0.0


def counts(counters: Counters) -> tuple[int, ...]:
    """Counters as the functions take them."""
    return (
        counters.deliveries,
        counters.errors,
        counters.timeouts,
        counters.stalls,
        counters.releases,
        counters.unknowns,
    )


def _id(receipt: Receipt) -> str | None:
    """Null, which no message has, for what no id of a message can be."""
    try:
        receipt.id.encode()
    except UnicodeEncodeError:
        return None
    return None if "\0" in receipt.id else receipt.id


def _token(receipt: Receipt) -> int | None:
    return receipt.token if -(2**63) <= receipt.token < 2**63 else None
