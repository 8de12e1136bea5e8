"""Ids for messages, made where they are sent."""

from __future__ import annotations

import os
import struct
import time

_AT_ONCE = struct.Struct("256Q")


def new_id() -> str:
    """A fresh UUIDv7: unique, and greater than the one made before it in this thread.

    The time is that of RFC 9562's third method, to the 4096th part of a millisecond. A store that
    is sent many in their order has nothing to sort.
    """
    global _last
    try:
        random = _randomness.pop()
    except IndexError:
        _randomness.extend(map(_tail, _AT_ONCE.unpack(os.urandom(2048))))
        random = _randomness.pop()
    stamp = (time.time_ns() << 12) // 1_000_000
    if stamp <= _last:
        stamp = _last + 1
    _last = stamp
    digits = f"{stamp:015x}"
    return f"{digits[:8]}-{digits[8:12]}-7{digits[12:]}{random}"


def _tail(number: int) -> str:
    """The last two parts of an id: the variant, and 62 random bits."""
    digits = f"{number >> 2 | 1 << 63:x}"
    return f"-{digits[:4]}-{digits[4:]}"


_last = 0
_randomness: list[str] = []  # asking the kernel for each id would take longer than all the rest
if hasattr(os, "register_at_fork"):  # else nothing forks
    os.register_at_fork(after_in_child=_randomness.clear)
