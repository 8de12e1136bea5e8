"""Ids for messages, made where they are sent."""

from __future__ import annotations

import os
import time


def new_id() -> str:
    """A fresh UUIDv7: unique, and in the order of creation to the millisecond."""
    try:
        random = _randomness.pop()
    except IndexError:
        _randomness.extend(os.urandom(10 * 256).hex(" ", 10).split())
        random = _randomness.pop()
    stamp = f"{time.time_ns() // 1_000_000:012x}"
    variant = "89ab"[int(random[3], 16) & 3]
    return f"{stamp[:8]}-{stamp[8:]}-7{random[:3]}-{variant}{random[4:7]}-{random[7:19]}"


_randomness: list[str] = []  # asking the kernel for each id would take longer than all the rest
if hasattr(os, "register_at_fork"):  # else nothing forks
    os.register_at_fork(after_in_child=_randomness.clear)
