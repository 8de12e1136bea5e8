"""One process of `bee worker`: it loads the program, and works. And what a supervisor needs too."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from bee_core.cli.common.errors import WrongUse
from bee_core.cli.common.loading import load_hive, names_of
from bee_core.cli.worker.options import Line, Options
from bee_core.errors import BeeError
from bee_core.events import Observer, log
from bee_core.hive import Hive
from bee_core.logs import configure_logging
from bee_core.registry import backend
from bee_core.service.channel import Beat, Leaving, Up, Upstream
from bee_core.service.exits import Exit
from bee_core.service.pulse import HeartbeatFile, Pulse
from bee_core.service.runner import run_hive
from bee_core.service.signals import Signals
from bee_core.service.wire import Outbox, Told, encode

NOT_IN_MEMORY = (
    "memory:// is the memory of one process: each of several would have queues of its own, and so "
    "would whoever sends the jobs. Give --url redis://... or postgresql://..., or leave out "
    "--processes"
)


def work(options: Options) -> Exit:
    """Be the worker, alone or as a process of a supervisor."""
    with Signals() as signals:  # from here on, also while the program is loaded
        line = None if options.supervised is None else Line.read(options.supervised)
        upstream = None if line is None else Upstream(line.fd, on_orphaned=signals.stop)
        with usage():
            new_loop = _loop_factory(options.loop)
            hive = load_hive(options.target)
            configure_logging(options.log, options.log_level.upper())  # unless the program has
            _adjust(hive, options)
            _check_memory(hive, line)
            observers = [] if line is not None else metrics_observers(options)
            outbox = _outbox(options, line, upstream)
            if outbox is not None:
                observers.append(outbox.observe)
            hive.adjust(observers=observers)
            file = None if line is not None else heartbeat_file(options)
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
                new_loop=new_loop,
            )


def _adjust(hive: Hive, options: Options) -> None:
    hive.adjust(
        url=options.url,
        queues=names_of(options.queues, "work on all") or (),
        concurrency=options.concurrency,
        grace=options.grace,
    )


def _check_memory(hive: Hive, line: Line | None) -> None:
    if isinstance(hive.broker, backend("memory")):
        if line is not None and not line.alone:
            raise WrongUse(NOT_IN_MEMORY)
        log.warning("memory://: here are only the jobs that this process sends to itself")


def _loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop] | None:
    if name == "asyncio":
        return None
    try:
        import uvloop
    except ImportError as error:
        need = 'pip install "bee-jobs[uvloop]"'
        raise WrongUse(f"--loop uvloop: it is not installed: {need} ({error})") from error
    return uvloop.new_event_loop


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


def _outbox(options: Options, line: Line | None, upstream: Upstream | None) -> Outbox | None:
    """Where the events of this process go: to the supervisor, to a file, or nowhere."""
    if line is None or upstream is None:
        return file_outbox(options, 0)
    return Outbox(upstream.tell, line.number, os.getpid()) if line.tells else None


# Common to one process and to a supervisor.


def file_outbox(options: Options, number: int) -> Outbox | None:
    """What writes events to the file that is meant, if one is."""
    if options.events is None:
        return None
    return Outbox(_writer(options.events), number, os.getpid())


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


def metrics_observers(options: Options) -> list[Observer]:
    """What counts for Prometheus; its metrics are served from now on, until the process ends."""
    if options.metrics is None:
        return []
    host, port = options.metrics
    try:
        from bee_core.service.exporter import serve_metrics
    except ImportError as error:
        need = 'prometheus_client is needed: pip install "bee-jobs[prometheus]"'
        raise WrongUse(f"--metrics: {need} ({error})") from error
    try:
        return [serve_metrics(host, port)]
    except OSError as error:
        raise WrongUse(f"--metrics: cannot listen on {host}, port {port}: {error}") from error


def heartbeat_file(options: Options) -> HeartbeatFile | None:
    """The heartbeat file that is meant, if one is."""
    path = options.heartbeat_file
    if path is not None and not path.absolute().parent.is_dir():
        raise WrongUse(f"--heartbeat-file {path}: there is no directory {path.absolute().parent}")
    return None if path is None else HeartbeatFile(path)


@contextmanager
def usage() -> Iterator[None]:
    """What is wrong with a program, as wrong use."""
    try:
        yield
    except BeeError as error:
        raise WrongUse(str(error)) from error
    except ModuleNotFoundError as error:  # of the driver: the program itself is loaded by now
        raise WrongUse(f"the broker's driver is not installed: {error}") from error
