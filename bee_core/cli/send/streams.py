"""Lines from a file, a pipe or a terminal, as they come; and how far it is, for who watches."""

from __future__ import annotations

import asyncio
import codecs
import os
import sys
from collections.abc import AsyncIterator
from typing import BinaryIO

import click

_CHUNK = 1 << 20
_WIDTH = 30


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


class Answers:
    """Standard output, line by line. If nobody reads it any more, that is no error."""

    def __init__(self) -> None:
        self._heard = True

    def say(self, line: str) -> None:
        """Print a line, if anybody listens."""
        if not self._heard:
            return
        try:
            click.echo(line)
        except BrokenPipeError:
            self._heard = False
            # What is left in the buffer could not be written at the end either.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Progress:
    """How far it is, redrawn on standard error; nothing at all if that is no terminal.

    A bar if it is known how many bytes there are, otherwise a counter.
    """

    def __init__(self, length: int | None, *, verb: str) -> None:
        self._length = length
        self._verb = verb
        self._bytes = 0
        self._on = sys.stderr.isatty()

    def show(self, count: int, size: int) -> None:
        """So many are done, and so many bytes more."""
        self._bytes += size
        if not self._on:
            return
        bar = ""
        if self._length:
            part = min(self._bytes / self._length, 1.0)
            full = round(part * _WIDTH)
            bar = f"[{'#' * full}{'-' * (_WIDTH - full)}] {part:4.0%}  "
        click.echo(f"\r{bar}{count:,} {self._verb}\x1b[K", err=True, nl=False)

    def clear(self) -> None:
        """Leave an empty line."""
        if self._on:
            click.echo("\r\x1b[K", err=True, nl=False)
