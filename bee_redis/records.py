"""Between bee's data and the packed records of `lua/lib.lua`."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import takewhile
from typing import Literal, cast

from bee_core.disposition import Archive, Delete, Reschedule
from bee_core.message import (
    ZERO,
    Counters,
    Draft,
    Lease,
    Note,
    Reason,
    Receipt,
    Settlement,
    State,
    Stored,
)
from bee_core.packing import pack_detail, pack_headers, pack_rule, unpack_headers

_MSG = struct.Struct(">QddbI")
_META = struct.Struct(">QdQbIIIIII")
_TOKEN = struct.Struct(">QIIIIII")
_COUNTERS = struct.Struct(">IIIIII")
_NO_COUNTERS = _COUNTERS.pack(0, 0, 0, 0, 0, 0)


def microseconds(seconds: float) -> int:
    """Durations as the scripts take them."""
    return round(seconds * 1_000_000)


def draft_arguments(draft: Draft) -> tuple[str | int | bytes, ...]:
    """A draft as the six arguments of `send.lua`."""
    delay = microseconds(draft.delay) if draft.delay else 0
    rule, headers = pack_rule(draft.if_taken), pack_headers(draft.headers)
    return (draft.id, rule, delay, draft.priority, headers, draft.body)


def is_plain(settlement: Settlement) -> bool:
    """Whether nothing is left to do but to delete the message."""
    return (
        type(settlement.disposition) is Delete
        and not settlement.then
        and settlement.receipt.token > 0
    )


def settlements_arguments(settlements: Sequence[Settlement]) -> list[str | int | bytes]:
    """Settlements, the plain ones first, as the arguments of `settle.lua`."""
    plain = len(list(takewhile(is_plain, settlements)))
    arguments: list[str | int | bytes] = [plain]
    for settlement in settlements[:plain]:
        arguments += receipt_arguments(settlement.receipt)
    for settlement in settlements[plain:]:
        arguments += settlement_arguments(settlement)
    return arguments


def receipt_arguments(receipt: Receipt) -> tuple[bytes, int]:
    """A receipt as a script takes it. An id that cannot be is not an error: such a one is lost."""
    return (receipt.id.encode("utf-8", "surrogatepass"), receipt.token)


def settlement_arguments(settlement: Settlement) -> list[str | int | bytes]:
    """A settlement as the arguments of `settle.lua`."""
    delay = 0
    match settlement.disposition:
        case Delete():
            what = "D"
        case Archive():
            what = "A"
        case Reschedule(front=True):
            what = "F"
        case Reschedule(delay=wait):
            what, delay = "R", microseconds(wait)
    note, added = settlement.note, settlement.counters
    arguments: list[str | int | bytes] = [
        *receipt_arguments(settlement.receipt),
        what,
        delay,
        _NO_COUNTERS if added is ZERO else _pack(added),
        note.reason if note else "",
        pack_detail(note) if note else b"",
        len(settlement.then),
    ]
    for draft in settlement.then:
        arguments += draft_arguments(draft)
    return arguments


def lease(id: bytes, held: bytes, msg: bytes) -> Lease:
    """A lease from three parts of a reply."""
    token, deliveries, errors, timeouts, stalls, releases, unknowns = _TOKEN.unpack(held)
    _, sent_at, _, _, size = _MSG.unpack_from(msg)
    split = _MSG.size + size
    return Lease(
        Receipt(id.decode(), token),
        msg[split:],
        unpack_headers(msg[_MSG.size : split]),
        Counters(
            deliveries=deliveries,
            errors=errors,
            timeouts=timeouts,
            stalls=stalls,
            releases=releases,
            unknowns=unknowns,
        ),
        sent_at / 1_000_000,
    )


def stored(id: bytes, fields: Sequence[bytes]) -> Stored:
    """A message as an operator sees it, from the five fields of `get.lua`."""
    state, leased_until, meta, msg, archived_at = fields
    _, due, _, priority, *counts = _META.unpack_from(meta)
    number, sent_at, _, _, size = _MSG.unpack_from(msg)
    split = _MSG.size + size
    holder, note = _tail(meta[_META.size :])
    return Stored(
        id=id.decode(),
        incarnation=number,
        state=State(state.decode()),
        body=msg[split:],
        headers=unpack_headers(msg[_MSG.size : split]),
        priority=priority,
        counters=Counters(**dict(zip(Counters.__struct_fields__, counts, strict=True))),
        sent_at=sent_at / 1_000_000,
        due_at=due / 1_000_000,
        holder=holder,
        leased_until=float(leased_until) / 1_000_000 if leased_until else None,
        note=note,
        archived_at=float(archived_at) / 1_000_000 if archived_at else None,
    )


def blocked(id: str, msg: bytes) -> Stored:
    """A successor as an operator sees it."""
    number, sent_at, due, priority, size = _MSG.unpack_from(msg)
    split = _MSG.size + size
    return Stored(
        id=id,
        incarnation=number,
        state=State.BLOCKED,
        body=msg[split:],
        headers=unpack_headers(msg[_MSG.size : split]),
        priority=priority,
        counters=ZERO,
        sent_at=sent_at / 1_000_000,
        due_at=due / 1_000_000,
    )


def _pack(counters: Counters) -> bytes:
    return _COUNTERS.pack(
        counters.deliveries,
        counters.errors,
        counters.timeouts,
        counters.stalls,
        counters.releases,
        counters.unknowns,
    )


def _tail(packed: bytes) -> tuple[str | None, Note | None]:
    """Holder and note, from the end of a meta record."""
    size = int.from_bytes(packed[:2], "big")
    holder = packed[2 : 2 + size].decode() or None
    reason_size = packed[2 + size]
    start = 3 + size
    reason = packed[start : start + reason_size].decode()
    detail = packed[start + reason_size + 4 :].decode()
    return holder, Note(cast("Reason", reason), detail) if reason else None


Code = Literal["D", "A"]


def terminal_code(to: Delete | Archive) -> Code:
    """Delete or Archive as the scripts take it."""
    return "A" if isinstance(to, Archive) else "D"
