"""Lines from a file, a pipe or a terminal, as they come."""

from __future__ import annotations

import asyncio
import codecs
import os
from collections.abc import AsyncIterator
from typing import BinaryIO

_CHUNK = 1 << 20


async def batches(stream: BinaryIO) -> AsyncIterator[list[bytes]]:
    """The lines that are there, without their ends; then those that have come meanwhile.

    So what is written to a pipe line by line is not kept waiting, and a file comes in large pieces.
    """
    rest: list[bytes] = []
    begun = False
    while chunk := await _read(stream):
        if not begun:
            chunk, begun = chunk.removeprefix(codecs.BOM_UTF8), True  # as some editors write it
        first, *others = chunk.split(b"\n")
        rest.append(first)
        if others:
            yield [b"".join(rest), *others[:-1]]
            rest = [others[-1]]
    if last := b"".join(rest):
        yield [last]


async def _read(stream: BinaryIO) -> bytes:
    try:
        file = stream.fileno()
    except OSError:  # it only looks like a file
        return stream.read(_CHUNK)
    loop = asyncio.get_running_loop()
    some = asyncio.Event()
    try:
        loop.add_reader(file, some.set)
    except PermissionError:  # a file on a disk, which never makes one wait
        return os.read(file, _CHUNK)
    try:
        await some.wait()
    finally:
        loop.remove_reader(file)
    return os.read(file, _CHUNK)
