"""Events as JSON and back, and the outbox that never makes a worker wait."""

from __future__ import annotations

import gc
import json
import socket
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from bee_core.disposition import Delete
from bee_core.errors import BeeError
from bee_core.events import (
    AttemptSettled,
    Event,
    EventsDropped,
    LoopBlocked,
    ProcessStarted,
    WorkerStarted,
)
from bee_core.message import ZERO
from bee_core.outcome import Failed, Outcome, Succeeded, TimedOut
from bee_core.service.channel import Lines, Upstream
from bee_core.service.wire import Outbox, RemoteError, Told, decode, encode
from tests.core.test_events import SAMPLES

EVENTS = [event for event, _, _ in SAMPLES]


def settled(outcome: Outcome) -> AttemptSettled:
    return AttemptSettled("mail", "id", 1, "send", 1, outcome, Delete(), ZERO, 0.1)


def as_it_arrives(value: Any) -> Any:
    """The same without results, and with errors as another process knows them."""
    match value:
        case Succeeded():
            return Succeeded()
        case BaseException():
            return RemoteError(type(value).__name__, str(value))
        case msgspec.Struct():
            fields = msgspec.structs.asdict(value)
            return type(value)(**{name: as_it_arrives(field) for name, field in fields.items()})
        case _:
            return value


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_every_event_there_is_arrives_as_what_it_was(event: Event) -> None:
    pid = event.pid if hasattr(event, "pid") else 7
    process = event.process if hasattr(event, "process") else 3

    told = decode(encode(Told(12.5, process, pid, event)))

    assert Told(12.5, process, pid, as_it_arrives(event)) == told
    assert type(event) is type(told.event)


def test_a_line_names_the_event_and_where_it_happened() -> None:
    line = json.loads(encode(Told(12.5, 3, 7, WorkerStarted("mail", "host:7"))))

    assert {
        "time": 12.5,
        "process": 3,
        "pid": 7,
        "event": "WorkerStarted",
        "queue": "mail",
        "holder": "host:7",
    } == line


@pytest.mark.parametrize(
    "result", [{1, 2}, object(), b"\xff", "x" * 10_000_000], ids=["set", "object", "bytes", "long"]
)
def test_results_do_not_travel(result: object) -> None:
    line = encode(Told(0.0, 0, 1, settled(Succeeded(result))))

    assert len(line) < 1000
    assert Told(0.0, 0, 1, settled(Succeeded())) == decode(line)


class Nameless(Exception):
    """An error without a text."""

    def __str__(self) -> str:
        raise RuntimeError


class Violent(Exception):
    """An error that ends who asks for its text."""

    def __str__(self) -> str:
        raise SystemExit(3)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no"), "ValueError: no"),
        (KeyError(), "KeyError"),
        (Nameless(), "Nameless: (its text cannot be had: RuntimeError)"),
        (Violent(), "Violent: (its text cannot be had: SystemExit)"),
        (ValueError("\ud800"), "ValueError: ?"),
        (ValueError("x" * 100_000), "ValueError: " + "x" * 4_000),
    ],
    ids=["plain", "without text", "raises", "exits", "no text at all", "long"],
)
def test_an_error_arrives_as_its_name_and_its_text(error: Exception, text: str) -> None:
    told = decode(encode(Told(0.0, 0, 1, settled(Failed(error)))))

    assert isinstance(told.event, AttemptSettled)
    assert isinstance(told.event.outcome, Failed)
    assert text == str(told.event.outcome.error)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"nonsense",
        b"[]",
        b"{}",
        b'{"event":"Nothing","time":1,"process":0,"pid":1}',
        b'{"event":"WorkerStarted","queue":"mail","holder":"h"}',
        b'{"event":"WorkerStarted","queue":1,"holder":"h","time":1,"process":0,"pid":1}',
        b'{"event":["WorkerStarted"],"time":1,"process":0,"pid":1}',
    ],
)
def test_what_is_no_event_is_refused(line: bytes) -> None:
    with pytest.raises(BeeError, match="not an event of bee"):
        decode(line)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_what_is_handed_on_stays_what_it_is(event: Event) -> None:
    once = decode(encode(Told(12.5, 3, 7, event)))

    assert once == decode(encode(once))


def test_events_that_wait_keep_neither_results_nor_tracebacks_alive() -> None:
    class Thing:
        """Something large."""

    def fail(thing: Thing) -> Failed:
        try:
            raise ValueError("no")
        except ValueError as error:
            return Failed(error)

    reads = threading.Event()

    def write(batch: Sequence[Told]) -> None:
        reads.wait(30)

    outbox = Outbox(write, 0, 1)
    result, local = Thing(), Thing()
    alive = [weakref.ref(result), weakref.ref(local)]

    for _ in range(2):
        outbox.observe(settled(Succeeded(result)))
        outbox.observe(settled(fail(local)))
    del result, local
    gc.collect()

    assert [None, None] == [one() for one in alive]
    reads.set()
    outbox.close(30)


def test_text_that_is_none_arrives_as_well_as_it_can() -> None:
    blocked = LoopBlocked("mail", ("id",), 'File "caf\udce9.py", line 1', None)
    late = settled(TimedOut(2.0, "\ud800"))

    told = [decode(encode(Told(12.5, 3, 7, event))).event for event in (blocked, late)]

    shown = LoopBlocked("mail", ("id",), 'File "caf?.py", line 1', None)
    assert [shown, settled(TimedOut(2.0, "?"))] == told


def test_lines_may_come_in_pieces() -> None:
    told = [Told(1.0, n, 7, ProcessStarted(n, 7)) for n in range(3)]
    data = b"".join(encode(one) + b"\n" for one in told)
    lines = Lines()

    said = [one for at in range(len(data)) for one in lines.feed(data[at : at + 1])]

    assert told == said


def test_a_note_that_is_none_is_refused() -> None:
    with pytest.raises(BeeError, match="not a note of bee"):
        Lines().feed(b'!{"type":"hello"}\n')


def test_events_are_written_together_and_none_is_missing() -> None:
    batches: list[Sequence[Told]] = []
    outbox = Outbox(batches.append, 3, 7)
    events = [WorkerStarted("mail", str(n)) for n in range(5_000)]

    for event in events:
        outbox.observe(event)
    outbox.close(30)

    assert events == [told.event for batch in batches for told in batch]
    assert {(3, 7)} == {(told.process, told.pid) for batch in batches for told in batch}
    assert len(batches) < 500


def test_who_does_not_take_events_misses_some_and_is_told_how_many() -> None:
    reads = threading.Event()
    got: list[Event] = []
    begun = threading.Event()

    def write(batch: Sequence[Told]) -> None:
        begun.set()
        reads.wait()
        got.extend(told.event for told in batch)

    outbox = Outbox(write, 0, 1, room=10)
    outbox.observe(WorkerStarted("mail", "first"))
    begun.wait()
    for _ in range(25):
        outbox.observe(WorkerStarted("mail", "more"))
    reads.set()
    outbox.close(30)

    assert 11 == len([event for event in got if isinstance(event, WorkerStarted)])
    assert [EventsDropped(15)] == [event for event in got if isinstance(event, EventsDropped)]


def test_a_writer_that_fails_is_not_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    def write(batch: Sequence[Told]) -> None:
        raise BrokenPipeError("nobody reads")

    outbox = Outbox(write, 0, 1)
    outbox.observe(WorkerStarted("mail", "h"))
    outbox.close(30)
    outbox.observe(WorkerStarted("mail", "h"))

    assert 1 == caplog.text.count("no more events are written: BrokenPipeError('nobody reads')")


def test_the_end_of_a_supervisor_is_heard() -> None:
    mine, theirs = socket.socketpair()
    orphaned = threading.Event()
    Upstream(theirs.detach(), on_orphaned=orphaned.set)

    mine.close()

    assert orphaned.wait(30)
