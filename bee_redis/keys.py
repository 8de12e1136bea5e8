"""The keys of a queue. One hash tag per queue, so all of them live in one slot of a cluster."""

from __future__ import annotations

from functools import lru_cache

PREFIX = "bee"
KINDS = {
    "ready": "zset",
    "delayed": "zset",
    "leased": "zset",
    "msg": "hash",
    "meta": "hash",
    "next": "hash",
    "archive": "zset",
    "kept": "hash",
    "older": "zset",
    "head": "hash",
    "lists": "zset",
    "results": "hash",
    "workers": "hash",
    "bell": "list",
}
"""In the order in which every script takes them; `lua/layout.lua` says what is in each."""


@lru_cache(maxsize=1024)
def keys(prefix: str, queue: str) -> tuple[bytes, ...]:
    """All keys of a queue, for a script."""
    return tuple(f"{prefix}:{{{queue}}}:{part}".encode() for part in KINDS)


def bell(prefix: str, queue: str) -> bytes:
    """The list that holds a queue's wake-ups."""
    return keys(prefix, queue)[-1]


def recall(prefix: str, queue: str, who: str) -> bytes:
    """The list by which one who waits for a queue's wake-ups is told to wait no longer."""
    return b"%b:%b" % (bell(prefix, queue), who.encode())


def registry(prefix: str) -> bytes:
    """The set of the names of all queues. In a cluster it has a slot of its own."""
    return f"{prefix}:queues".encode()
