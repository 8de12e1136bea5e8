"""`bee worker`: a hive as a process, or as several.

What it does is in `bee_core.service`; here are the words, and what ties it together. The user's
program is imported when the command runs, and never by a supervisor.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import click
import msgspec

from bee_core.cli.examples import examples
from bee_core.cli.loading import WrongUse, load_hive
from bee_core.cli.units import as_bytes, as_seconds
from bee_core.config import broker_url
from bee_core.errors import BeeError
from bee_core.events import log
from bee_core.hive import Hive
from bee_core.logs import configure_logging
from bee_core.registry import backend
from bee_core.service.channel import Beat, Leaving, Up, Upstream
from bee_core.service.exits import Exit
from bee_core.service.pulse import HeartbeatFile, Pulse
from bee_core.service.runner import run_hive
from bee_core.service.signals import Signals
from bee_core.service.supervisor import Supervisor
from bee_core.service.wire import Outbox, Told, encode


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What was typed."""

    target: str
    url: str | None
    queues: str | None
    concurrency: int | None
    processes: int | None
    until_empty: bool
    grace: float | None
    max_jobs: int | None
    max_rss: int | None
    heartbeat_file: Path | None
    events: str | None
    log: Literal["text", "json"]
    log_level: str
    supervised: str | None

    def of_a_process(self, number: int, fd: int) -> list[str]:
        """The words for one process of several."""
        words = [self.target]
        for name in ("url", "queues", "concurrency", "grace", "max_jobs", "max_rss"):
            if (value := getattr(self, name)) is not None:
                shown = f"{value:f}" if isinstance(value, float) else str(value)  # never 1e-05
                words += [f"--{name.replace('_', '-')}", shown]
        words += ["--log", self.log, "--log-level", self.log_level]
        words += ["--until-empty"] if self.until_empty else []
        told = "" if self.events is None else ":events"
        return [*words, "--supervised", f"{fd}:{number}{told}"]


@click.command(
    short_help="Work on the queues of a program.",
    epilog=examples(
        "bee worker shop.jobs:hive",
        "bee worker shop.jobs:hive --processes 4 --concurrency 20",
        "bee worker shop.jobs:hive --queues mail,films --until-empty",
        "bee worker shop.jobs --processes 2 --max-jobs 10000 --max-rss 512M",
        "bee worker shop.jobs --events - | jq 'select(.event == \"HandlerStuck\")'",
    ),
)
@click.argument("target", metavar="MODULE:HIVE")
@click.option("--url", metavar="URL", help="The broker. Otherwise what the program says.")
@click.option("--queues", metavar="A,B", help="These only. Otherwise all that have handlers.")
@click.option(
    "--concurrency", type=click.IntRange(min=1), metavar="N", help="Jobs at once, for each queue."
)
@click.option(
    "--processes", type=click.IntRange(min=1), metavar="N", help="So many processes, watched over."
)
@click.option("--until-empty", is_flag=True, help="End when no job is left.")
@click.option(
    "--grace", callback=as_seconds, metavar="TIME", help="For running jobs at the end: 25s."
)
@click.option(
    "--max-jobs", type=click.IntRange(min=1), metavar="N", help="Leave after so many jobs."
)
@click.option(
    "--max-rss", callback=as_bytes, metavar="SIZE", help="Leave when memory exceeds this: 512M."
)
@click.option(
    "--heartbeat-file",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="BEE_HEARTBEAT_FILE",
    metavar="FILE",
    help="Written every second, for bee health.",
)
@click.option("--events", metavar="FILE", help="Every event as a line of JSON; - is stdout.")
@click.option(
    "--log", type=click.Choice(["text", "json"]), default="text", help="Form of the log: text."
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    metavar="LEVEL",
    help="debug, info, warning or error: info.",
)
@click.option("--supervised", hidden=True)
def worker(**given: object) -> None:
    """Work on the queues of a program until told to stop.

    MODULE:HIVE is the hive to run, found from the current directory; MODULE alone will do if it has
    exactly one. The first SIGTERM or SIGINT lets running jobs end for the grace period, the second
    interrupts them now, the third ends the process at once.

    \b
    Exit codes:
      0    ended as asked: stopped, nothing left, enough jobs done
      1    an unexpected error, or it did not stop in time
      2    wrong use: no such module, hive, queue, option; no handlers
      75   handlers are stuck: start it again
      78   the store is not set up as it must be
      130  a third signal came
    """
    options = msgspec.convert(given, Options)
    if options.supervised is None and options.processes is not None:
        code = _supervise(options)
    else:
        code = _work(options)
    raise SystemExit(int(code))


# One process.


def _work(options: Options) -> Exit:
    with Signals() as signals:  # from here on, also while the program is loaded
        upstream, number, tells = None, 0, False
        if options.supervised is not None:
            fd, number, tells = _line(options.supervised)
            upstream = Upstream(fd, on_orphaned=signals.stop)
        with _usage():
            hive = load_hive(options.target)
            configure_logging(options.log, options.log_level.upper())  # unless the program has
            _adjust(hive, options)
            if isinstance(hive.broker, backend("memory")):
                if upstream is not None:
                    raise WrongUse(_NOT_IN_MEMORY)
                log.warning("memory://: here are only the jobs that this process sends to itself")
            outbox = _outbox(options.events, upstream, number, tells)
            if outbox is not None:
                hive.adjust(observers=(outbox.observe,))
            file = None if upstream is not None else _heartbeat_file(options)
            if upstream is not None:
                upstream.say(Up(hive.patience[0]))
            return run_hive(
                hive,
                signals=signals,
                until_empty=options.until_empty,
                max_jobs=options.max_jobs,
                max_rss=options.max_rss,
                on_pulse=_pulses(upstream, file),
                on_leaving=(lambda: None) if upstream is None else lambda: upstream.say(Leaving()),
                on_end=_ends(outbox, file),
            )


def _adjust(hive: Hive, options: Options) -> None:
    given = "" if options.queues is None else options.queues
    names = [name.strip() for name in given.split(",") if name.strip()]
    if options.queues is not None and not names:
        raise WrongUse("--queues names no queue: leave it out to work on all")
    hive.adjust(
        url=options.url,
        queues=names,
        concurrency=options.concurrency,
        grace=options.grace,
    )


def _line(supervised: str) -> tuple[int, int, bool]:
    fd, number, *tells = supervised.split(":")
    return int(fd), int(number), bool(tells)


def _pulses(
    upstream: Upstream | None, file: HeartbeatFile | None
) -> Sequence[Callable[[Pulse], None]]:
    found: list[Callable[[Pulse], None]] = []
    if upstream is not None:
        found.append(lambda pulse: upstream.say(Beat(pulse)))
    if file is not None:
        found.append(file.write)
    return found


def _ends(outbox: Outbox | None, file: HeartbeatFile | None) -> Sequence[Callable[[], None]]:
    return [
        *([] if outbox is None else [outbox.close]),
        *([] if file is None else [file.remove]),
    ]


_NOT_IN_MEMORY = (
    "memory:// is the memory of one process: each of several would have queues of its own, and so "
    "would whoever sends the jobs. Give --url redis://... or postgresql://..., or leave out "
    "--processes"
)


def _outbox(
    events: str | None, upstream: Upstream | None, number: int, tells: bool
) -> Outbox | None:
    """Where the events of this process go: to the supervisor, to a file, or nowhere."""
    if upstream is not None:
        return Outbox(upstream.tell, number, os.getpid()) if tells else None
    return None if events is None else Outbox(_writer(events), number, os.getpid())


# Several processes.


def _supervise(options: Options) -> Exit:
    configure_logging(options.log, options.log_level.upper())
    assert options.processes is not None
    with _usage():
        if options.url is not None and broker_url(options.url).startswith("memory:"):
            raise WrongUse(_NOT_IN_MEMORY)

    def command(number: int, fd: int) -> list[str]:
        words = options.of_a_process(number, fd)
        # -P, as for a script: a `queue.py` in the current directory shall not be taken for Python's
        return [sys.executable, "-P", "-m", "bee_core.cli", "worker", *words]

    outbox = _outbox(options.events, None, -1, tells=False)
    supervisor = Supervisor(
        command,
        options.processes,
        until_empty=options.until_empty,
        listeners=() if outbox is None else (outbox.take,),
        heartbeat_file=_heartbeat_file(options),
    )
    try:
        return asyncio.run(supervisor.run())
    finally:
        if outbox is not None:
            outbox.close()


# Common to both.


def _writer(events: str) -> Callable[[Sequence[Told]], None]:
    """How to write events to that file, whole lines at a time.

    Not through a buffered file: one that is blocked could not be closed at the end.
    """
    try:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        file = sys.stdout.fileno() if events == "-" else os.open(events, flags, 0o644)
    except OSError as error:
        raise WrongUse(f"--events {events} cannot be written: {error}") from error

    def write(batch: Sequence[Told]) -> None:
        data = memoryview(b"".join(encode(told) + b"\n" for told in batch))
        while data:
            data = data[os.write(file, data) :]

    return write


def _heartbeat_file(options: Options) -> HeartbeatFile | None:
    path = options.heartbeat_file
    if path is not None and not path.absolute().parent.is_dir():
        raise WrongUse(f"--heartbeat-file {path}: there is no directory {path.absolute().parent}")
    return None if path is None else HeartbeatFile(path)


@contextmanager
def _usage() -> Iterator[None]:
    """What is wrong with a program, as wrong use."""
    try:
        yield
    except BeeError as error:
        raise WrongUse(str(error)) from error
    except ModuleNotFoundError as error:  # of the driver: the program itself is loaded by now
        raise WrongUse(f"the broker's driver is not installed: {error}") from error
