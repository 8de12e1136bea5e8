"""Sending what was written down: one job, a file that is checked first, a pipe as it comes."""

from __future__ import annotations

import asyncio
import stat
import sys
from pathlib import Path
from typing import Any, BinaryIO

import click
import msgspec

from bee_core.cli.common.errors import CannotAsk, WrongUse
from bee_core.cli.common.telling import Progress, say
from bee_core.cli.common.words import count
from bee_core.cli.send.lines import BadLine, Reader
from bee_core.cli.send.streams import batches
from bee_core.errors import BeeError, BrokerError
from bee_core.hive import Hive
from bee_core.hive_queue import HiveQueue
from bee_core.message import Draft, Sent

_BATCH = 500
_MOST_SHOWN = 10
"""As many bad lines of a file are shown."""


class Sending:
    """One command's worth of jobs for a queue.

    With `dry_run` they are checked and not sent. Their ids are printed, but for many in a terminal,
    where they would only hide how far it is.
    """

    def __init__(
        self, hive: Hive, queue: HiveQueue[Any], reader: Reader, *, dry_run: bool, as_json: bool
    ) -> None:
        self._hive = hive
        self._queue = queue
        self._reader = reader
        self._dry_run = dry_run
        self._as_json = as_json
        self._quiet = False
        self._count = 0
        """Jobs that are sent, or would be."""
        self._kept = 0
        """Of these, such as were there already."""
        self._line = 0

    def one(self, text: str) -> None:
        """A job from the command line."""
        try:
            draft = self._reader.draft(text.encode("utf-8", "surrogateescape"))
        except BadLine as error:
            raise WrongUse(str(error)) from error
        asyncio.run(self._one(draft))
        self._conclude()

    def file(self, path: Path) -> None:
        """A file: all of it, or nothing if a line is bad."""
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # it can be read once only
            with path.open("rb") as stream:
                self.stream(stream)
            return
        with path.open("rb") as stream:
            asyncio.run(self._check(stream))
        with path.open("rb") as stream:
            self.stream(stream, length=status.st_size)

    def stream(self, stream: BinaryIO, length: int | None = None) -> None:
        """Whatever comes, up to the first bad line."""
        self._quiet = sys.stdout.isatty() and not self._as_json
        progress = Progress(length)
        try:
            asyncio.run(self._stream(stream, progress))
        except KeyboardInterrupt:
            self._stop("interrupted", None)
        finally:
            progress.clear()
        self._conclude()

    async def _check(self, stream: BinaryIO) -> None:
        """Raise if a line is bad, having shown it."""
        shown: list[str] = []
        number = jobs = bad = 0
        async for lines in batches(stream):
            for line in lines:
                number += 1
                if line.strip():
                    jobs += 1
                    try:
                        self._reader.draft(line)
                    except BadLine as error:
                        bad += 1
                        if bad <= _MOST_SHOWN:
                            shown.append(f"line {number}: {error}")
        if bad:
            shown += [f"and {bad - _MOST_SHOWN} more"] if bad > _MOST_SHOWN else []
            click.echo("\n".join(shown), err=True)
            raise WrongUse(f"{bad} of {jobs} jobs are bad, so none was sent")

    async def _stream(self, stream: BinaryIO, progress: Progress) -> None:
        verb, size = "checked" if self._dry_run else "sent", 0
        async with self._hive:
            async for lines in batches(stream):
                await self._send_lines(lines)
                size += sum(map(len, lines)) + len(lines)
                progress.show(size, f"{self._count:,} {verb}")

    async def _send_lines(self, lines: list[bytes]) -> None:
        drafts: list[Draft] = []
        for line in lines:
            self._line += 1
            if line.strip():
                try:
                    drafts.append(self._reader.draft(line))
                except BadLine as error:
                    await self._send(drafts)  # what comes before it is good
                    self._stop(f"line {self._line}: {error}", error)
            if len(drafts) == _BATCH:
                await self._send(drafts)
                drafts = []
        await self._send(drafts)

    async def _one(self, draft: Draft) -> None:
        async with self._hive:
            await self._take([draft])

    async def _send(self, drafts: list[Draft]) -> None:
        try:
            await self._take(drafts)
        except BeeError as error:
            self._stop(str(error), error)

    async def _take(self, drafts: list[Draft]) -> None:
        """Send them, unless they were to be checked only, and say what became of each."""
        became: list[tuple[str, str | None]] = [(draft.id, None) for draft in drafts]
        if not self._dry_run:
            tickets = await self._queue.send_many(drafts)
            became = [(ticket.id, ticket.sent.value) for ticket in tickets]
        self._count += len(drafts)
        self._kept += sum(sent == Sent.KEPT.value for _, sent in became)
        for id, sent in became:
            if self._as_json:
                say(msgspec.json.encode({"id": id, "sent": sent}))
            elif sent is not None and not self._quiet:
                say(id)

    def _stop(self, problem: str, error: BeeError | None) -> None:
        """End it, and say how far it has come."""
        sent = 0 if self._dry_run else self._count
        jobs = f"{count(sent, 'job')} {'was' if sent == 1 else 'were'}" if sent else "Nothing was"
        text = f"{problem.rstrip('.')}. {jobs} sent"
        if not isinstance(error, BadLine) and not self._dry_run:
            text += " for certain; of the next ones it is not known"
        if isinstance(error, BrokerError):
            raise CannotAsk(text) from error
        if isinstance(error, BadLine) and not sent:
            raise WrongUse(text) from error
        raise click.ClickException(text) from error

    def _conclude(self) -> None:
        if self._kept and not self._as_json:
            note = (
                f"{self._kept} of {self._count} waited already under that id, and stayed as before"
            )
            click.echo(note, err=True)
        if self._as_json or not (self._quiet or self._dry_run):
            return
        done = "fine, nothing was sent" if self._dry_run else f"sent to {self._queue.name}"
        say(f"{count(self._count, 'job')}: {done}")
