"""Log lines: what they show, whose job they are about, and that nobody can forge them."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import logging.config
import logging.handlers
import math
import queue
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pytest

import bee_core as bee
from bee_core.disposition import Archive, Reschedule
from bee_core.events import AttemptSettled, LoopBlocked
from bee_core.journal import log_events
from bee_core.logs import (
    JobContext,
    JsonFormatter,
    KeyValueFormatter,
    configure_logging,
    error_line,
    escaped,
    shown,
)
from bee_core.message import ZERO, Note
from bee_core.outcome import Failed

from .support import Work, hive_for

ARCHIVE = bee.Policy(on_error=bee.Archive())
EVIL = 'x" id=1\r\n12:00:00.000 ERROR bee all is lost\u2028\x85\x1b[31m\x00'


class Unshowable:
    def __str__(self) -> str:
        raise RuntimeError("no")


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise SystemExit


@contextmanager
def logged(formatter: logging.Formatter, *filters: logging.Filter) -> Iterator[io.StringIO]:
    """What bee and the loggers of these tests write, down to debug."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    for one in filters:
        handler.addFilter(one)
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield stream
    finally:
        root.removeHandler(handler)
        root.setLevel(before)


def line(text: str) -> str:
    """One line without its time."""
    assert text.endswith("\n")
    time, _, rest = text[:-1].partition(" ")
    datetime.strptime(time, "%H:%M:%S.%f")
    return rest


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(one, parse_constant=pytest.fail) for one in text.splitlines()]


def failed(error: BaseException, *, id: str = "0199", note: Note | None = None) -> AttemptSettled:
    outcome, again = Failed(error), Reschedule(8.0)
    return AttemptSettled("mail", id, 7, "SendEmail", 2, outcome, again, ZERO, 0.084, note)


async def drained(hive: bee.Hive, jobs: bee.HiveQueue[Work], *ids: str) -> None:
    async with hive:
        for id in ids:
            await jobs.send(Work(), id=id)
        await hive.run(until_empty=True)


def test_a_failure_is_one_line_with_its_error() -> None:
    with logged(KeyValueFormatter()) as text:
        log_events(failed(OSError("disk full"), note=Note("failed")))

    first, *below = text.getvalue().splitlines(keepends=True)
    assert line(first) == (
        "WARNING bee failed SendEmail queue=mail id=0199 attempt=2 in=0.084s "
        'error="OSError: disk full" again_in=8.0s'
    )
    assert below == ["    OSError: disk full\n"]


def test_a_record_of_bee_has_its_fields_as_they_are(caplog: pytest.LogCaptureFixture) -> None:
    log_events(failed(OSError("disk full")))

    [record] = caplog.records
    assert vars(record)["bee"] == {
        "event": "failed",
        "tag": "SendEmail",
        "queue": "mail",
        "id": "0199",
        "attempt": 2,
        "in": 0.084,
        "error": "OSError: disk full",
        "again_in": 8.0,
    }
    assert record.msg == ("failed %s queue=%s id=%s attempt=%s in=%.3fs error=%s again_in=%.1fs"), (
        "who groups records by their template must find few of them"
    )


async def test_the_traceback_of_a_failed_job_stands_below_its_line_and_is_bounded() -> None:
    def deep(left: int) -> None:
        if left:
            deep(left - 1)
        raise ValueError("far down " + "x" * 1_000)

    async def handle(job: Work) -> None:
        deep(200)

    hive, jobs = hive_for(handle, policy=ARCHIVE)
    with logged(KeyValueFormatter()) as text:
        await drained(hive, jobs, "a")

    lines = text.getvalue().splitlines()
    [at] = [number for number, one in enumerate(lines) if "WARNING bee failed work" in one]
    assert len(lines[at]) < 400
    below = [one for one in lines[at + 1 :] if one.startswith("    ")]
    assert 1 < len(below) < 200
    assert sum(map(len, below)) < 10_000


@pytest.mark.parametrize("formatter", [KeyValueFormatter(), logging.Formatter()])
async def test_whoever_asks_for_a_repeat_gets_no_traceback(formatter: logging.Formatter) -> None:
    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        if delivery.attempt == 1:
            raise bee.Retry("busy", after=0)

    hive, jobs = hive_for(handle)
    with logged(formatter) as text:
        await drained(hive, jobs, "a")

    assert 'error="Retry: busy"' in text.getvalue()
    assert "Traceback" not in text.getvalue()


async def test_other_formatters_show_the_same_traceback() -> None:
    async def handle(job: Work) -> None:
        raise ValueError("boom")

    hive, jobs = hive_for(handle, policy=ARCHIVE)
    with logged(logging.Formatter()) as text:
        await drained(hive, jobs, "a")

    assert "raise ValueError" in text.getvalue()


async def test_tools_that_collect_errors_find_the_error_itself(
    caplog: pytest.LogCaptureFixture,
) -> None:
    error = ValueError("boom")

    async def handle(job: Work) -> None:
        raise error

    hive, jobs = hive_for(handle, policy=ARCHIVE)
    await drained(hive, jobs, "a")

    [record] = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert record.exc_info is not None
    assert record.exc_info[1] is error


def test_the_stack_of_a_blocked_loop_is_indented_below() -> None:
    with logged(KeyValueFormatter()) as text:
        log_events(LoopBlocked("mail", tuple(map(str, range(12))), "File x\n  time.sleep(60)\n"))

    first, *below = text.getvalue().splitlines(keepends=True)
    assert line(first) == (
        'ERROR bee event loop blocked queue=mail by="0,1,2,3,4,5,6,7,8,9 and 2 more"'
    )
    assert ["    File x\n", "      time.sleep(60)\n"] == below


@pytest.mark.parametrize("formatter", [KeyValueFormatter(), JsonFormatter()])
def test_no_text_can_forge_a_line(formatter: logging.Formatter) -> None:
    with logged(formatter) as text:
        log_events(failed(ValueError(EVIL), id=EVIL, note=Note("failed", EVIL)))
        logging.getLogger(f"shop.{EVIL}").error("%s", EVIL, extra={EVIL: EVIL, "lines": ["\n"]})
        try:
            raise ValueError(EVIL)
        except ValueError:
            logging.getLogger("shop").exception(EVIL, stack_info=True)

    lines = text.getvalue().split("\n")
    assert lines.pop() == ""
    assert 3 == len([one for one in lines if not one.startswith("    ")])
    assert all(one.isprintable() for one in lines)


def test_no_id_can_forge_a_line_of_other_formatters_either() -> None:
    with logged(logging.Formatter("%(message)s")) as text:
        log_events(failed(bee.Retry(EVIL), id=EVIL, note=Note("failed", "once\n")))

    first, *below = text.getvalue().splitlines()
    assert first.startswith("failed SendEmail queue=mail")
    assert below == ["once"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("plain", "plain"),
        ("", '""'),
        ("two words", '"two words"'),
        ('say "hi"', '"say \\"hi\\""'),
        ("a=b", '"a=b"'),
        ("back\\slash", '"back\\\\slash"'),
        ("line\nbreak", '"line\\nbreak"'),
        ("Grüße", "Grüße"),
        ("\ud800", '"\\ud800"'),
        (None, "None"),
        (1.5, "1.5"),
        (Unshowable(), '"(its text cannot be had: RuntimeError)"'),
    ],
)
def test_values_are_quoted_when_they_must_be(value: object, expected: str) -> None:
    assert expected == shown(value)


def test_what_is_escaped_can_be_told_apart_and_stays_on_its_line() -> None:
    assert "a b\\n\\x1b\\u2028\\U000e0001ü" == escaped("a b\n\x1b\u2028\U000e0001ü")


def test_the_text_of_an_error_is_bounded_and_need_not_be_there() -> None:
    assert "KeyError" == error_line(KeyError())
    assert 200 == len(error_line(ValueError("x" * 10_000)))
    assert "Unspeakable: (its text cannot be had: SystemExit)" == error_line(Unspeakable())


def test_a_record_of_anybody_is_shown_with_what_was_added_to_it() -> None:
    with logged(KeyValueFormatter()) as text:
        logging.getLogger("shop").info("paid %d", 3, extra={"cents": 250, "by": "Ada L"})

    assert 'INFO shop paid 3 cents=250 by="Ada L"' == line(text.getvalue())


def test_json_has_one_object_a_line_with_all_there_is() -> None:
    with logged(JsonFormatter()) as text:
        log_events(failed(OSError("disk full"), note=Note("failed", "Traceback: none\n")))
        logging.getLogger("shop").info("paid %d", 3, extra={"cents": 250})

    first, second = objects(text.getvalue())
    assert datetime.fromisoformat(first.pop("time")).tzinfo is not None
    assert first.pop("process") > 0
    assert first == {
        "level": "WARNING",
        "logger": "bee",
        "message": "failed SendEmail queue=mail id=0199 attempt=2 in=0.084s "
        'error="OSError: disk full" again_in=8.0s',
        "event": "failed",
        "tag": "SendEmail",
        "queue": "mail",
        "id": "0199",
        "attempt": 2,
        "in": 0.084,
        "error": "OSError: disk full",
        "again_in": 8.0,
        "traceback": "Traceback: none",
    }
    assert second["time"].endswith("Z")
    assert ("shop", "paid 3", 250) == (second["logger"], second["message"], second["cents"])


def test_json_takes_any_value_there_is() -> None:
    circular: list[object] = []
    circular.append(circular)
    extra = {
        "nan": math.nan,
        "huge": 10**5000,
        "bytes": b"\xff",
        "set": {1},
        "circular": circular,
        "keys": {(1, 2): {None: "x"}},
        "unshowable": Unshowable(),
        "surrogate": "\ud800",
        "when": datetime(2026, 1, 1),
        "deep": {"a": {"b": {"c": {"d": {"e": {"f": 1}}}}}},
    }
    with logged(JsonFormatter()) as text:
        logging.getLogger("shop").info("look", extra=extra)

    [first] = objects(text.getvalue())
    assert set(extra) <= set(first)
    assert ("nan", [1], "b'\\xff'") == (first["nan"], first["set"], first["bytes"])
    assert {"(1, 2)": {"None": "x"}} == first["keys"]


@pytest.mark.parametrize("formatter", [KeyValueFormatter(), JsonFormatter()])
@pytest.mark.parametrize("message", ["%d", "%s %s", Unshowable()])
def test_a_message_that_cannot_be_shown_is_no_reason_to_lose_the_line(
    formatter: logging.Formatter, message: object
) -> None:
    record = logging.LogRecord("shop", logging.INFO, "", 0, message, ("no number",), None)

    assert "cannot be shown" in formatter.format(record)


def test_json_has_the_error_and_its_traceback_apart() -> None:
    with logged(JsonFormatter()) as text:
        try:
            raise KeyError("gone")
        except KeyError:
            logging.getLogger("shop").exception("oh", stack_info=True)

    [one] = objects(text.getvalue())
    assert "KeyError: 'gone'" == one["error"]
    assert one["traceback"].startswith("Traceback")
    assert one["stack"].startswith("Stack")


def test_what_was_added_never_hides_what_is_there() -> None:
    with logged(JsonFormatter()) as text:
        logging.getLogger("shop").info("hi", extra={"level": "none", "time": 7})

    [one] = objects(text.getvalue())
    assert ("INFO", "none", 7) == (one["level"], one["level_"], one["time_"])


@pytest.mark.parametrize("thread", [False, True])
async def test_what_a_handler_logs_names_its_job(thread: bool) -> None:
    shop = logging.getLogger("shop")

    async def in_loop(job: Work) -> None:
        await asyncio.sleep(0)
        shop.info("begun", extra={"id": 77})
        await asyncio.create_task(helper())

    async def helper() -> None:
        shop.info("helped")

    def in_thread(job: Work) -> None:
        shop.info("begun", extra={"id": 77})
        shop.info("helped")

    hive, jobs = hive_for(in_thread if thread else in_loop)
    with logged(KeyValueFormatter()) as text:
        await drained(hive, jobs, "a", "b")
        shop.info("outside")

    said = [line(one) for one in text.getvalue().splitlines(True) if " shop " in one]
    assert sorted(said) == [
        "INFO shop begun queue=jobs id=a attempt=1 id_=77",
        "INFO shop begun queue=jobs id=b attempt=1 id_=77",
        "INFO shop helped queue=jobs id=a attempt=1",
        "INFO shop helped queue=jobs id=b attempt=1",
        "INFO shop outside",
    ]


async def test_a_filter_notes_the_job_for_formats_of_ones_own() -> None:
    async def handle(job: Work) -> None:
        logging.getLogger("shop").info("paid")

    hive, jobs = hive_for(handle)
    form = logging.Formatter("%(name)s [%(bee_queue)s/%(bee_id)s/%(bee_attempt)s] %(message)s")
    with logged(form, JobContext()) as text:
        await drained(hive, jobs, "a")
        logging.getLogger("shop").info("outside")

    said = [one for one in text.getvalue().splitlines() if one.startswith("shop")]
    assert ["shop [jobs/a/1] paid", "shop [//] outside"] == said


async def test_a_filter_keeps_the_job_for_who_formats_elsewhere() -> None:
    async def handle(job: Work) -> None:
        logging.getLogger("shop").info("paid")

    hive, jobs = hive_for(handle)
    records: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()
    handler = logging.handlers.QueueHandler(records)
    handler.addFilter(JobContext())
    logging.getLogger("shop").addHandler(handler)
    try:
        with logged(KeyValueFormatter()):
            await drained(hive, jobs, "a")
            logging.getLogger("shop").info("outside")
    finally:
        logging.getLogger("shop").removeHandler(handler)

    inside, outside = records.get_nowait(), records.get_nowait()
    assert line(KeyValueFormatter().format(inside) + "\n") == (
        "INFO shop paid queue=jobs id=a attempt=1"
    )
    assert "a" == json.loads(JsonFormatter().format(inside))["id"]
    assert "id" not in json.loads(JsonFormatter().format(outside))


@pytest.mark.parametrize("key", ["()", "class"])
@pytest.mark.parametrize("name", ["KeyValueFormatter", "JsonFormatter"])
def test_the_formatters_can_be_named_in_a_configuration(key: str, name: str) -> None:
    logger = logging.getLogger("configured")
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "filters": {"job": {"()": "bee_core.logs.JobContext"}},
            "formatters": {"bee": {key: f"bee_core.logs.{name}"}},
            "handlers": {
                "out": {
                    "class": "logging.StreamHandler",
                    "formatter": "bee",
                    "filters": ["job"],
                }
            },
            "loggers": {"configured": {"handlers": ["out"], "level": "INFO"}},
        }
    )
    [handler] = logger.handlers
    logger.handlers.clear()

    assert name == type(handler.formatter).__name__


def test_a_format_of_ones_own_is_refused() -> None:
    with pytest.raises(bee.InvalidOption, match="format of its own"):
        KeyValueFormatter("%(message)s")


def configured(*arguments: str) -> str:
    program = (
        "import logging; from bee_core.logs import configure_logging\n"
        f"configure_logging({', '.join(arguments)})\n"
        "logging.getLogger('shop').debug('low'); logging.getLogger('shop').warning('high')\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "" == answer.stdout
    return answer.stderr


def test_a_program_sets_up_its_logging_in_one_call() -> None:
    assert "WARNING shop high" == line(configured())
    assert ["low", "high"] == [one["message"] for one in objects(configured("'json'", "'debug'"))]


@pytest.mark.parametrize(("form", "level"), [("xml", "INFO"), ("text", "LOUD"), ("text", -1)])
def test_bad_options_are_refused(form: Any, level: Any) -> None:
    with pytest.raises(bee.InvalidOption):
        configure_logging(form, level)


def test_no_record_is_made_that_nobody_wants(monkeypatch: pytest.MonkeyPatch) -> None:
    logger = logging.getLogger("bee")
    monkeypatch.setattr(logger, "level", logging.ERROR)
    logger.manager._clear_cache()  # type: ignore[attr-defined]
    monkeypatch.setattr(logger, "makeRecord", lambda *_: pytest.fail("made"))
    try:
        log_events(failed(ValueError("boom")))
        log_events(AttemptSettled("q", "i", 1, "t", 1, Failed(OSError()), Archive(), ZERO, 0.0))
    finally:
        monkeypatch.undo()
        logger.manager._clear_cache()  # type: ignore[attr-defined]


class Full(logging.Handler):
    """A log on a disk that is full, by somebody who does not catch that."""

    def emit(self, record: logging.LogRecord) -> None:
        raise OSError(28, "No space left on device")


class Untraced:
    """A tracing that fails."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("no trace")


@pytest.mark.parametrize("tracing", [None, Untraced()], ids=["plain", "traced"])
async def test_a_log_that_raises_fails_no_job_and_no_worker(
    caplog: pytest.LogCaptureFixture, tracing: Any
) -> None:
    ran: list[int] = []

    async def handle(job: Work) -> None:
        ran.append(job.number)

    hive, jobs = hive_for(handle)
    caplog.set_level(logging.DEBUG, "bee")
    full = Full()
    logging.getLogger("bee").addHandler(full)
    try:
        async with hive:
            await jobs.send_many([Work(number=number) for number in range(5)])
            with hive.substitute(hive.broker, tracing=tracing):
                await hive.run(until_empty=True)
    finally:
        logging.getLogger("bee").removeHandler(full)

    assert [0, 1, 2, 3, 4] == sorted(ran)
