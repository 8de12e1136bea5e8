"""Events: a closed family, told to observers that cannot do any harm."""

from __future__ import annotations

import inspect
import logging
from typing import Any, get_args

import msgspec
import pytest

from bee_core import events
from bee_core.disposition import Archive, Delete, Reschedule
from bee_core.events import (
    AttemptLost,
    AttemptSettled,
    AttemptStarted,
    BrokerAilment,
    BrokerRecovered,
    BrokerTrouble,
    ConcurrencyChanged,
    Event,
    EventsDropped,
    HandlerStuck,
    LoopBlocked,
    ProcessEnded,
    ProcessSlowed,
    ProcessStarted,
    ResultDropped,
    ScheduleMissed,
    SettlementRefused,
    WorkerStarted,
    WorkerStopped,
    announce,
)
from bee_core.journal import log_events
from bee_core.message import Counters
from bee_core.outcome import (
    Failed,
    Interrupted,
    Malformed,
    Outcome,
    Ruled,
    Stalled,
    Succeeded,
    TimedOut,
    Unknown,
)
from bee_core.stored import Finding

STARTED = WorkerStarted("mail", "host:1")


def settled(outcome: Outcome, disposition: Delete | Archive | Reschedule) -> AttemptSettled:
    return AttemptSettled(
        "mail", "id-1", 7, "send_email", 2, outcome, disposition, Counters(errors=1), 0.25
    )


SAMPLES: list[tuple[Event, int, str]] = [
    (STARTED, logging.INFO, "worker started queue=mail holder=host:1"),
    (
        WorkerStopped("mail", "host:1", 12, 1),
        logging.INFO,
        "worker stopped queue=mail holder=host:1 settled=12 stuck=1",
    ),
    (
        AttemptStarted("mail", "id-1", 7, "send_email", 2),
        logging.DEBUG,
        "start send_email queue=mail id=id-1 attempt=2",
    ),
    (
        settled(Succeeded(), Delete()),
        logging.DEBUG,
        "succeeded send_email queue=mail id=id-1 attempt=2 in=0.250s fate=deleted",
    ),
    (
        settled(Ruled(Archive()), Archive()),
        logging.DEBUG,
        "ruled send_email queue=mail id=id-1 attempt=2 in=0.250s fate=archived",
    ),
    (
        settled(Interrupted(), Reschedule(front=True)),
        logging.INFO,
        "interrupted send_email queue=mail id=id-1 attempt=2 in=0.250s again_in=0.0s",
    ),
    (
        settled(Failed(RuntimeError("boom")), Reschedule(2.5)),
        logging.WARNING,
        "failed send_email queue=mail id=id-1 attempt=2 in=0.250s "
        'error="RuntimeError: boom" again_in=2.5s',
    ),
    (
        settled(TimedOut(60.0), Archive()),
        logging.WARNING,
        "timed_out send_email queue=mail id=id-1 attempt=2 in=0.250s fate=archived",
    ),
    (
        settled(Stalled(), Archive()),
        logging.WARNING,
        "stalled send_email queue=mail id=id-1 attempt=2 in=0.250s fate=archived",
    ),
    (
        settled(Malformed("?"), Archive()),
        logging.WARNING,
        "malformed send_email queue=mail id=id-1 attempt=2 in=0.250s problem=? fate=archived",
    ),
    (
        settled(Unknown("?"), Reschedule(1.0)),
        logging.WARNING,
        "unknown send_email queue=mail id=id-1 attempt=2 in=0.250s problem=? again_in=1.0s",
    ),
    (
        AttemptLost("mail", "id-1", 7, "send_email"),
        logging.WARNING,
        "lost send_email queue=mail id=id-1 certain=True",
    ),
    (
        HandlerStuck("mail", "id-1", 7, "send_email", 3),
        logging.ERROR,
        "stuck send_email queue=mail id=id-1 stuck=3",
    ),
    (
        LoopBlocked("mail", ("id-1",), "File x, line 1"),
        logging.ERROR,
        "event loop blocked queue=mail by=id-1",
    ),
    (
        BrokerTrouble("mail", "lease", OSError("gone")),
        logging.WARNING,
        'broker trouble queue=mail verb=lease error="OSError: gone"',
    ),
    (
        BrokerRecovered("mail", "lease"),
        logging.WARNING,
        "broker recovered queue=mail verb=lease",
    ),
    (
        BrokerAilment("mail", Finding("old transaction", "open for 70 s. End it")),
        logging.WARNING,
        'broker ailment queue=mail topic="old transaction" finding="open for 70 s. End it"',
    ),
    (
        SettlementRefused("mail", "id-1", 7, OSError("gone")),
        logging.ERROR,
        'settlement refused queue=mail id=id-1 error="OSError: gone"',
    ),
    (
        ResultDropped("mail", "id-1", 7, "send_email", "its result, a Lock: no"),
        logging.WARNING,
        'result dropped send_email queue=mail id=id-1 problem="its result, a Lock: no"',
    ),
    (
        ScheduleMissed("mail", "nightly", 1_000.0, 71.25, None),
        logging.WARNING,
        "schedule missed queue=mail name=nightly late=71.2s sent=nothing",
    ),
    (
        ScheduleMissed("mail", "nightly", 1_000.0, 90.0, "nightly@1970-01-01T00:16:40Z"),
        logging.WARNING,
        "schedule missed queue=mail name=nightly late=90.0s sent=nightly@1970-01-01T00:16:40Z",
    ),
    (ProcessStarted(1, 77), logging.INFO, "process started process=1 pid=77"),
    (
        ProcessEnded(1, 77, 0, None, wanted=True),
        logging.INFO,
        "process ended process=1 pid=77 code=0",
    ),
    (
        ProcessEnded(1, 77, None, "SIGKILL", wanted=False),
        logging.ERROR,
        "process ended process=1 pid=77 signal=SIGKILL",
    ),
    (
        ProcessSlowed(1, 5, 30.0),
        logging.ERROR,
        "crash loop process=1 crashes=5 pause=30.0s",
    ),
    (
        EventsDropped(12),
        logging.WARNING,
        "events dropped count=12",
    ),
    (
        ConcurrencyChanged("mail", 12, 0.456, 0.0123),
        logging.DEBUG,
        "concurrency queue=mail size=12 cpu=0.46 lag=0.012s",
    ),
]


@pytest.mark.parametrize(("event", "level", "text"), SAMPLES)
def test_the_log_has_one_line_for_every_event(
    event: Event, level: int, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "bee")

    log_events(event)

    assert [("bee", level, text)] == caplog.record_tuples


def test_the_samples_know_every_event_and_every_outcome_there_is() -> None:
    outcomes = {type(e.outcome) for e, _, _ in SAMPLES if isinstance(e, AttemptSettled)}

    assert set(get_args(Event)) == {type(event) for event, _, _ in SAMPLES}
    assert set(get_args(Outcome)) == outcomes


def test_every_record_in_the_module_is_an_event() -> None:
    records = {
        value
        for value in vars(events).values()
        if inspect.isclass(value)
        and issubclass(value, msgspec.Struct)
        and value.__module__ == events.__name__
    }

    assert set(get_args(Event)) == records


@pytest.mark.parametrize("kind", get_args(Event), ids=lambda kind: str(kind.__name__))
def test_events_are_frozen_and_say_what_they_mean(kind: Any) -> None:
    assert kind.__struct_config__.frozen
    assert kind.__doc__
    of_a_process = kind in (ProcessStarted, ProcessEnded, ProcessSlowed, EventsDropped)
    assert of_a_process or "queue" == kind.__struct_fields__[0]


def test_nothing_is_logged_below_the_level_that_was_asked_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR, "bee")

    log_events(settled(Failed(RuntimeError("boom")), Archive()))

    assert [] == caplog.records


def test_an_observer_that_raises_is_logged_and_does_not_stop_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard: list[Event] = []

    def broken(event: Event) -> None:
        raise RuntimeError("boom")

    announce([heard.append, broken, heard.append], STARTED)

    assert [STARTED, STARTED] == heard
    [record] = caplog.records
    assert logging.ERROR == record.levelno
    assert "broken" in record.getMessage()
    assert record.getMessage().endswith("failed on WorkerStarted")
    assert record.exc_info is not None


def test_an_event_without_observers_is_no_trouble() -> None:
    announce([], STARTED)


def test_an_observer_cannot_swallow_the_end_of_the_program() -> None:
    def stop(event: Event) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        announce([stop], STARTED)
