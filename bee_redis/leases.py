"""What `lease.lua` takes, and what it returns: many leases in one string, so that none has to be
read by itself.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from bee_core.checks import check_holder
from bee_core.duration import seconds
from bee_core.message import NO_HEADERS, Counters, Lease, Receipt, Throttle
from bee_redis.ids import unpack_id
from bee_redis.msg import read_msg
from bee_redis.records import COUNTERS, microseconds, throttle_arguments
from bee_redis.resp import as_bytes

_HEAD = struct.Struct(">ddQ")
_LEASE = struct.Struct(">HBI")
_USUAL = struct.Struct(">HBI16sQB3xB")
"""A lease as most are: a packed id, no counters, a short spot, and that the msg is not full."""
_ONCE = Counters(deliveries=1)


@lru_cache(maxsize=256, typed=True)
def lease_terms(duration: float, holder: str, throttle: Throttle) -> tuple[bytes, ...]:
    """The arguments of a lease that a worker says every time, checked."""
    hidden = microseconds(seconds(duration, "duration", least=0.001))
    return tuple(map(as_bytes, (hidden, check_holder(holder), *throttle_arguments(throttle))))


def leases(reply: bytes, stride: int = 1) -> tuple[float | None, list[Lease]]:
    """From the reply of `lease.lua`: seconds until there may be more, if that is known; leases.

    Each token is that many more than the last.
    """
    pause, now, token = _HEAD.unpack_from(reply)
    leased_at, at, end, found = now / 1_000_000, _HEAD.size, len(reply), []
    reply += bytes(_USUAL.size)  # so that the last one is long enough to be looked at
    while at < end:
        size, counted, length, id, due, near, full = _USUAL.unpack_from(reply, at)
        token, start = token + stride, at + _LEASE.size + counted + size
        if size == 16 and not counted and 0 < near < 255 and not full:
            receipt, body = Receipt(unpack_id(id), token), reply[at + _USUAL.size : start + length]
            sent_at = due / 1_000_000
            found.append(Lease(receipt, body, NO_HEADERS, _ONCE, sent_at, leased_at, None, None))
        else:
            receipt = Receipt(unpack_id(reply[start - size : start]), token)
            counters = _unpack_counters(reply, at + _LEASE.size) if counted else _ONCE
            found.append(_lease(receipt, reply[start : start + length], counters, leased_at))
        at = start + length
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
