"""Between bee's data and the packed records of `lua/layout.lua`."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import takewhile
from typing import Any, Literal, assert_never, cast

import msgspec

from bee_core.checks import check_settlement
from bee_core.disposition import Archive, Delete, Reschedule
from bee_core.message import (
    ZERO,
    Counters,
    Draft,
    Note,
    Rate,
    Reason,
    Receipt,
    Report,
    Settlement,
    Throttle,
)
from bee_core.packing import is_plain, pack_detail, pack_headers, pack_rule
from bee_core.stored import Episode, Holder, State, Stored
from bee_core.text import readable
from bee_redis.ids import pack_id, unpack_id
from bee_redis.msg import pack_extras, read_msg, read_spot

_META = struct.Struct(">QbIIIIIIx")
COUNTERS = struct.Struct(">IIIIII")
_REST = struct.Struct(">dHHB")
_EPISODE = struct.Struct(">QdddBHHH")
_NO_COUNTERS = COUNTERS.pack(0, 0, 0, 0, 0, 0)


def microseconds(seconds: float) -> int:
    """Durations as the scripts take them."""
    return round(seconds * 1_000_000)


def drafts_arguments(drafts: Sequence[Draft]) -> list[str | int | bytes]:
    """Drafts as the arguments of `send.lua`. Of plain ones, id and body say all."""
    arguments: list[str | int | bytes] = [2]
    for draft in drafts:
        if not is_plain(draft):
            return [7, *(part for each in drafts for part in draft_arguments(each))]
        arguments += (pack_id(draft.id), draft.body)
    return arguments


def draft_arguments(draft: Draft) -> tuple[str | int | bytes, ...]:
    """A full draft, as `lib.lua` takes it."""
    delay = microseconds(draft.delay) if draft.delay else 0
    rule, headers = pack_rule(draft.if_taken), pack_headers(draft.headers)
    return (pack_id(draft.id), rule, delay, draft.priority, pack_extras(draft), headers, draft.body)


def throttle_arguments(throttle: Throttle) -> tuple[int | str, ...]:
    """A throttle as the last five arguments of `lease.lua`."""
    per_key = "" if throttle.per_key is None else throttle.per_key
    return (per_key, *_rate_arguments(throttle.rate), *_rate_arguments(throttle.key_rate))


def is_plain_end(settlement: Settlement) -> bool:
    """Whether nothing is left to do but to delete the message."""
    return (
        type(settlement.disposition) is Delete
        and settlement.note is None
        and not settlement.then
        and not settlement.result
        and not settlement.keep
        and not settlement.summary
        and 0 < settlement.receipt.token < 2**64
    )


def plain_first(settlements: Sequence[Settlement]) -> Sequence[Settlement]:
    """Plain ones come first: they are ended together. But not before a draft that meets them."""
    for settlement in settlements:
        check_settlement(settlement)
    sent = {draft.id for settlement in settlements for draft in settlement.then}

    def goes_first(settlement: Settlement) -> bool:
        return is_plain_end(settlement) and settlement.receipt.id not in sent

    return sorted(settlements, key=goes_first, reverse=True)


def settlements_arguments(
    settlements: Sequence[Settlement], are_plain: bool
) -> list[str | int | bytes]:
    """Settlements, the plain ones first, as the arguments of `settle.lua`; or all are plain."""
    plain = len(settlements) if are_plain else len(list(takewhile(is_plain_end, settlements)))
    receipts = [settlement.receipt for settlement in settlements[:plain]]
    tokens = struct.pack(f">{plain}Q", *[receipt.token for receipt in receipts])
    arguments: list[str | int | bytes] = [plain, tokens]
    arguments += [pack_id(receipt.id) for receipt in receipts]
    for settlement in settlements[plain:]:
        arguments += settlement_arguments(settlement)
    return arguments


def receipt_arguments(receipt: Receipt) -> tuple[bytes, int]:
    """A receipt as a script takes it. An id that cannot be is not an error: such a one is lost."""
    return (pack_id(receipt.id), receipt.token)


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
        case _:
            assert_never(settlement.disposition)
    note, added = settlement.note, settlement.counters
    arguments: list[str | int | bytes] = [
        *receipt_arguments(settlement.receipt),
        what,
        delay,
        _NO_COUNTERS if added is ZERO else pack_counters(added),
        note.reason if note else "",
        pack_detail(note) if note else b"",
        settlement.result,
        microseconds(settlement.keep),
        settlement.summary,
        len(settlement.then),
    ]
    for draft in settlement.then:
        arguments += draft_arguments(draft)
    return arguments


def report(id: str, packed: bytes) -> Report:
    """How a message ended: a note, and behind it the result."""
    note, result = _unpack_note(packed)
    return Report(id, note or Note("ruled"), result)


def stored(id: bytes, fields: Sequence[bytes]) -> Stored:
    """A message as an operator sees it, from the five fields of `get.lua`."""
    state, leased_until, meta, msg, archived_at = fields
    token, priority, *counts = _META.unpack_from(meta)
    due, _, at = read_spot(meta, _META.size)
    tail = at + 2 + int.from_bytes(meta[at : at + 2], "big")
    note, rest = _unpack_note(meta[tail:])
    leased_at, progress, remark, history = _unpack_rest(rest)
    held = token != 0 and not archived_at
    return msgspec.structs.replace(
        _waiting(unpack_id(id), State(state.decode()), msg),
        priority=priority,
        counters=Counters(**dict(zip(Counters.__struct_fields__, counts, strict=True))),
        due_at=due / 1_000_000,
        holder=readable(meta[at + 2 : tail]) or None,
        leased_until=float(leased_until) / 1_000_000 if leased_until else None,
        note=note,
        archived_at=float(archived_at) / 1_000_000 if archived_at else None,
        progress=progress,
        leased_at=(leased_at or token) / 1_000_000 if held else None,
        remark=remark,
        history=history,
        token=token if held else None,
    )


def blocked(id: str, msg: bytes) -> Stored:
    """A successor as an operator sees it."""
    return _waiting(id, State.BLOCKED, msg)


def announced_holder(name: bytes, since: bytes, until: bytes, about: bytes) -> Holder:
    """Somebody who has announced itself, from four fields of `workers.lua`."""
    return Holder(
        readable(name),
        since=int(since) / 1_000_000,
        until=int(until) / 1_000_000,
        about=readable(about),
    )


def _waiting(id: str, state: State, msg: bytes) -> Stored:
    """What a msg record alone says of a message."""
    sent = read_msg(msg)
    return Stored(
        id=id,
        incarnation=sent.number,
        state=state,
        body=sent.body,
        headers=sent.headers,
        priority=sent.priority,
        counters=ZERO,
        sent_at=sent.sent_at / 1_000_000,
        due_at=sent.due / 1_000_000,
        key=sent.key,
        awaits=sent.awaits,
        reports_to=sent.reports_to,
    )


def _rate_arguments(rate: Rate | None) -> tuple[int | str, int | str]:
    return ("", "") if rate is None else (rate.times, microseconds(rate.seconds))


def pack_counters(counters: Counters) -> bytes:
    """Counters as they stand in a meta."""
    return COUNTERS.pack(
        counters.deliveries,
        counters.errors,
        counters.timeouts,
        counters.stalls,
        counters.releases,
        counters.unknowns,
    )


def _unpack_note(packed: bytes) -> tuple[Note | None, bytes]:
    """A note, and what stands behind it."""
    size = packed[0] if packed else 0
    start = 5 + size
    end = start + int.from_bytes(packed[start - 4 : start], "big")
    reason, detail = readable(packed[1 : 1 + size]), readable(packed[start:end])
    return Note(cast("Reason", reason), detail) if reason else None, packed[end:]


_NO_REST = (0.0, None, None, ())


def _unpack_rest(rest: bytes) -> tuple[float, str | None, str | None, tuple[Episode, ...]]:
    """When leased (0: as the token says), progress, remark, history."""
    if len(rest) < _REST.size:
        return _NO_REST
    leased_at, size, more, count = _REST.unpack_from(rest)
    progress, remark, at = _split(rest, _REST.size, size, more)
    episodes = []
    for _ in range(count):
        if at + _EPISODE.size > len(rest):  # somebody else has written there
            break
        token, began_at, ended_at, due, *sizes = _EPISODE.unpack_from(rest, at)
        reason, holder, summary, noticed, at = _split(rest, at + _EPISODE.size, *sizes)
        episode = Episode(
            token=token,
            holder=holder,
            leased_at=began_at / 1_000_000,
            ended_at=ended_at / 1_000_000,
            reason=cast("Reason", reason),
            summary=summary,
            due_at=due / 1_000_000 if due else None,
            remark=noticed or None,
        )
        episodes.append(episode)
    return leased_at, progress or None, remark or None, tuple(episodes)


def _split(packed: bytes, at: int, *sizes: int) -> Any:
    """Texts of these sizes, and where they end."""
    texts = []
    for size in sizes:
        texts.append(readable(packed[at : at + size]))
        at += size
    return (*texts, at)


Code = Literal["D", "A"]


def terminal_code(to: Delete | Archive) -> Code:
    """Delete or Archive as the scripts take it."""
    return "A" if isinstance(to, Archive) else "D"
