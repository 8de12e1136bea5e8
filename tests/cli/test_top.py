"""`bee top`: what it shows, drawn by a pure function; and a terminal that is given back."""

from __future__ import annotations

import json
import os
import signal
import time

import psutil
import pytest

from bee_core.cli.top.view import Glance, Line, Picture, rates, screen
from bee_core.message import Counters, Note
from bee_core.stored import Holder, QueueStats, State, Stored
from tests.servers import RedisServer, valkey_binary

from .conftest import RunBee
from .support import Terminal, fail, lease, send, use

ENTERED, LEFT = "\x1b[?1049h", "\x1b[?1049l"


def job(id: str, **fields: object) -> Stored:
    common = {
        "incarnation": 1,
        "state": State.LEASED,
        "body": b'{"v":1,"job":{"type":"mail"}}',
        "headers": {},
        "priority": 0,
        "counters": Counters(),
        "sent_at": 0.0,
        "due_at": 0.0,
    }
    return Stored(id=id, **(common | fields))  # type: ignore[arg-type]


def picture(at: float, *queues: Glance) -> Picture:
    return Picture(at, at, queues)


BEFORE = picture(100.0, Glance("mail", QueueStats(ready=50, created=100)))
NOW = picture(
    110.0,
    Glance("films", QueueStats(paused=True, ready=3, oldest_due=65.0)),
    Glance(
        "mail",
        QueueStats(
            ready=30, leased=2, created=200, archived={"failed": 4, "timed_out": 1}, oldest_due=2.5
        ),
        [Holder("ann:1", 2), Holder("bob:2")],
        [
            job("young", leased_at=109.5, holder="ann:1"),
            job("old", leased_at=50.0, holder="bob:2", progress="3 of 7"),
        ],
        [
            job("good", state=State.ARCHIVED, archived_at=109.0, note=Note("succeeded")),
            job(
                "bad",
                state=State.ARCHIVED,
                archived_at=108.0,
                note=Note("failed", "OSError: disk\x1b[2J full"),
            ),
        ],
    ),
)


def text(lines: list[Line]) -> list[str]:
    return [" ".join(line.text.split()) for line in lines]


def test_a_screen_has_queues_running_jobs_and_failures() -> None:
    lines = screen(BEFORE, NOW, where="redis://localhost")

    header, _, *rest = text(lines)
    assert header.startswith("bee top redis://localhost 2 queues 2 workers ")
    assert [
        "queue ready delayed running blocked archived sent/s done/s oldest empty in workers",
        "films 3 0 0 0 0 - - 1m05s - 0 paused",
        "mail 30 0 2 0 5 10.0 11.8 2.5s 16s 2",
        "",
        "running",
        "queue kind id age holder progress",
        "mail mail old 1m bob:2 3 of 7",
        "mail mail young 0.5s ann:1",
        "",
        "last failures",
        "queue kind id when reason error",
        "mail mail bad 2s ago failed OSError: disk\\x1b[2J full",
    ] == rest
    assert "paused" == lines[3].style
    assert "bad" == lines[-1].style


def test_without_an_earlier_look_there_are_no_rates() -> None:
    assert "mail 30 0 2 0 5 - - 2.5s - 2" in text(screen(None, NOW, where=""))


def test_a_queue_that_was_dropped_in_between_seems_to_have_stood_still() -> None:
    after = picture(110.0, Glance("mail", QueueStats(created=1)))

    assert {"sent": 0.0, "done": 0.0, "empty_in": 0.0} == rates(BEFORE, after, after.queues[0])


def test_an_empty_store() -> None:
    assert "no queues" == screen(None, picture(1.0), where="")[-1].text


def test_what_went_wrong_stands_below_the_title() -> None:
    lines = screen(None, NOW, where="", problem="cannot reach\nthe server")

    assert "as it was then; now: cannot reach\\nthe server" == lines[1].text


@pytest.mark.parametrize("width", [1, 10, 40, 80, 200])
@pytest.mark.parametrize("height", [1, 5, 8, 14, 40])
def test_it_fits_into_every_terminal(width: int, height: int) -> None:
    many = [job(f"日本-{number}", leased_at=1.0) for number in range(100)]
    crowd = picture(
        110.0, *(Glance(f"q{n}", QueueStats(), running=many, archived=many) for n in range(30))
    )

    lines = screen(None, crowd, where="redis://localhost", width=width, height=height)

    assert 0 < len(lines) <= max(height, 2)
    assert all(len(line.text) <= width for line in lines)


def test_what_does_not_fit_is_counted() -> None:
    many = [job(f"job-{number}", leased_at=1.0) for number in range(100)]
    crowd = picture(110.0, Glance("mail", QueueStats(), running=many))

    lines = screen(None, crowd, where="", width=80, height=20)

    assert 20 == len(lines)
    assert "and 88 more jobs that run" == lines[-1].text


def test_once_prints_one_picture(run_bee: RunBee, store_url: str) -> None:
    fail(store_url, "mail", "bad")
    send(store_url, "mail", "a", "b")
    lease(store_url, "mail")

    ended = run_bee("top", "--once", "--interval", "200ms", "--url", store_url)

    shown = [" ".join(line.split()) for line in ended.stdout.splitlines()]
    assert (0, "") == (ended.returncode, ended.stderr)
    assert any(line.startswith("mail 1 0 1 0 1 0.0 0.0 ") for line in shown)
    assert any(line.startswith("mail mail a ") and line.endswith(" ann:1") for line in shown)
    assert shown[-1].startswith("mail mail bad ")
    assert "\x1b" not in ended.stdout


def test_for_programs_each_picture_is_an_object(run_bee: RunBee, store_url: str) -> None:
    send(store_url, "mail", "a")

    ended = run_bee("top", "mail", "--once", "--json", "--interval", "100ms", "--url", store_url)

    (queue,) = json.loads(ended.stdout)["queues"]
    assert ("mail", 1, 0, 0.0) == (
        queue["queue"],
        queue["ready"],
        queue["running"],
        queue["sent_rate"],
    )


@pytest.mark.parametrize("key", ["q", "\x03"])
def test_a_terminal_is_given_back(valkey_url: str, key: str) -> None:
    send(valkey_url, "mail", "a")
    terminal = Terminal(["top", "--interval", "100ms", "--url", valkey_url])
    try:
        terminal.wait_for("0.0     0.0")  # the second picture
        terminal.press(key)

        assert 0 == terminal.end()
    finally:
        terminal.close()
    assert terminal.shown.startswith(ENTERED)
    assert LEFT in terminal.shown[-20:]
    assert "Traceback" not in terminal.shown


def test_a_terminal_is_given_back_when_it_is_told_to_end(valkey_url: str) -> None:
    send(valkey_url, "mail", "a")
    terminal = Terminal(["top", "--interval", "60s", "--url", valkey_url])
    try:
        terminal.wait_for("mail")
        os.kill(terminal.process.pid, signal.SIGTERM)

        assert 128 + signal.SIGTERM == terminal.end()
    finally:
        terminal.close()
    assert LEFT in terminal.shown[-20:]


def until_stopped(pid: int) -> None:
    """Wait until a process has stopped itself: to wake it before would be in vain."""
    deadline = time.monotonic() + 10
    while psutil.Process(pid).status() != psutil.STATUS_STOPPED:
        assert time.monotonic() < deadline, "it does not stop"
        time.sleep(0.01)


def test_a_terminal_is_given_back_while_it_is_suspended(valkey_url: str) -> None:
    send(valkey_url, "mail", "a")
    terminal = Terminal(["top", "--interval", "100ms", "--url", valkey_url])
    try:
        terminal.wait_for("mail")
        terminal.press("\x1a")
        terminal.wait_for(LEFT)
        until_stopped(terminal.process.pid)
        terminal.shown = ""
        os.kill(terminal.process.pid, signal.SIGCONT)
        terminal.wait_for("mail")
        entered = terminal.shown
        terminal.press("q")

        assert 0 == terminal.end()
    finally:
        terminal.close()
    assert entered.startswith(ENTERED)


def test_it_goes_on_while_the_store_is_away_and_can_be_left() -> None:
    server = RedisServer(valkey_binary(), keep=True)
    terminal = None
    try:
        send(server.url, "mail", "a")
        terminal = Terminal(["top", "--interval", "100ms", "--url", server.url])
        terminal.wait_for("mail")
        server.kill()
        terminal.wait_for("as it was then; now: ")
        server.start()
        use(server.url, lambda store: store.pause("films"))
        terminal.wait_for("films")
        with server.frozen():
            time.sleep(0.3)
            pressed = time.monotonic()
            terminal.press("q")
            code = terminal.end()
            took = time.monotonic() - pressed
    finally:
        if terminal is not None:
            terminal.close()
        server.stop()

    assert 0 == code
    assert took < 5
    assert LEFT in terminal.shown[-20:]


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        (("--interval", "1ms"), 2, "at least 100ms"),
        (("--interval", "often"), 2, "is not a duration"),
        (("nosuch",), 1, "no queue 'nosuch' in this store; there is none"),
    ],
)
def test_what_cannot_be_shown(
    run_bee: RunBee, valkey_url: str, words: tuple[str, ...], code: int, problem: str
) -> None:
    ended = run_bee("top", *words, "--once", "--url", valkey_url)

    assert (code, "") == (ended.returncode, ended.stdout)
    assert problem in ended.stderr
