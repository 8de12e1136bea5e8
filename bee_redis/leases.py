"""What `lease.lua` returns: many leases in one string, so that none has to be read by itself."""

from __future__ import annotations

import struct

from bee_core.message import NO_HEADERS, Counters, Lease, Receipt
from bee_redis.ids import unpack_id
from bee_redis.msg import SHORT, is_short, read_msg
from bee_redis.records import COUNTERS

_HEAD = struct.Struct(">ddQ")
_LEASE = struct.Struct(">HBI")
_ONCE = Counters(deliveries=1)


def leases(reply: bytes, stride: int = 1) -> tuple[float | None, list[Lease]]:
    """From the reply of `lease.lua`: seconds until there may be more, if that is known; leases.

    Each token is that many more than the last.
    """
    pause, now, token = _HEAD.unpack_from(reply)
    leased_at, at, found = now / 1_000_000, _HEAD.size, []
    while at < len(reply):
        size, counted, length = _LEASE.unpack_from(reply, at)
        at += _LEASE.size
        counters = _unpack_counters(reply, at) if counted else _ONCE
        start = at + counted + size
        token, at = token + stride, start + length
        receipt = Receipt(unpack_id(reply[start - size : start]), token)
        if is_short(reply, start) and not reply[start + SHORT]:  # as most are
            sent_at = int.from_bytes(reply[start : start + 8], "big") / 1_000_000
            body = reply[start + SHORT + 1 : at]
            found.append(Lease(receipt, body, NO_HEADERS, counters, sent_at, leased_at, None, None))
        else:
            found.append(_lease(receipt, reply[start:at], counters, leased_at))
    return None if pause < 0 else pause / 1_000_000, found


def _lease(receipt: Receipt, msg: bytes, counters: Counters, leased_at: float) -> Lease:
    sent = read_msg(msg)
    return Lease(
        receipt,
        sent.body,
        sent.headers,
        counters,
        sent.sent_at / 1_000_000,
        leased_at,
        sent.key,
        sent.reports_to,
    )


def _unpack_counters(reply: bytes, at: int) -> Counters:
    counts = COUNTERS.unpack_from(reply, at)
    return Counters(**dict(zip(Counters.__struct_fields__, counts, strict=True)))
