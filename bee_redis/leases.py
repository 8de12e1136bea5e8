"""What `lease.lua` returns: many leases in one string, so that none has to be read by itself."""

from __future__ import annotations

import struct

from bee_core.message import NO_HEADERS, Counters, Lease, Receipt
from bee_core.packing import unpack_headers
from bee_redis.records import COUNTERS, MSG, NO_EXTRAS, unpack_extras

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
        id = reply[start - size : start].decode()
        found.append(_lease(Receipt(id, token), reply[start:at], counters, leased_at))
    return None if pause < 0 else pause / 1_000_000, found


def _lease(receipt: Receipt, msg: bytes, counters: Counters, leased_at: float) -> Lease:
    _, _, _, sent_at, size, extra = MSG.unpack_from(msg)
    start = MSG.size + extra
    _, key, reports_to = unpack_extras(msg, extra) if extra else NO_EXTRAS
    return Lease(
        receipt,
        msg[start + size :],
        unpack_headers(msg[start : start + size]) if size else NO_HEADERS,
        counters,
        sent_at / 1_000_000,
        leased_at,
        key,
        reports_to,
    )


def _unpack_counters(reply: bytes, at: int) -> Counters:
    counts = COUNTERS.unpack_from(reply, at)
    return Counters(**dict(zip(Counters.__struct_fields__, counts, strict=True)))
