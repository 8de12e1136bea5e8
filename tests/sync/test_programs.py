"""Programs that send without await: how they end, and what becomes of processes that they fork."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time

import pytest

import bee_core as bee
from bee_core import sync


def command(program: str, url: str) -> list[str]:
    strict = ["-W", "error", "-W", "ignore:This process:DeprecationWarning"]
    return [sys.executable, *strict, "-m", "tests.sync.programs", program, url]


def run(program: str, url: str, code: int = 0) -> float:
    """Run it; it must say nothing. How long it took, in seconds."""
    began = time.monotonic()
    done = subprocess.run(
        command(program, url), capture_output=True, text=True, timeout=60, check=False
    )
    assert ("", code) == (done.stderr, done.returncode)
    return time.monotonic() - began


def stored(url: str) -> set[str]:
    """The ids that are in the store."""
    with sync.connect(url) as store:
        found: set[str] = set()
        after: str | None = None
        while True:
            page = store.scan("greetings", bee.State.READY, after=after)
            found |= {one.id for one in page.items}
            if (after := page.after) is None:
                return found


@pytest.mark.parametrize(
    ("program", "ids"),
    [
        ("plain", "plain"),
        ("forks_before", "a-1 a-2 b-1 b-2 parent"),
        ("forks_after", "first a-1 a-2 b-1 b-2 c-1 c-2 parent"),
        ("forks_of_forks", "first child grandchild-1 grandchild-2 child-again parent"),
        ("pools", "first a b c d parent"),
        ("sends_at_exit", "first last"),
        ("ends_while_waiting", "first"),
    ],
)
def test_what_a_program_sends_arrives_whoever_of_it_sends(
    program: str, ids: str, shared_url: str
) -> None:
    run(program, shared_url)

    assert set(ids.split()) == stored(shared_url)


def test_children_that_are_forked_while_threads_send_harm_nobody(shared_url: str) -> None:
    run("forks_among_threads", shared_url)

    ids = stored(shared_url)
    assert {f"child-{n}-{m}" for n in range(8) for m in (1, 2)} <= ids
    for number in range(3):
        sent = sorted(int(id.rpartition("-")[2]) for id in ids if f"thread-{number}-" in id)
        assert list(range(len(sent))) == sent


@pytest.mark.parametrize("program", ["plain", "sends_at_exit", "ends_while_waiting"])
def test_a_program_in_memory_ends_by_itself(program: str) -> None:
    assert run(program, "memory://") < 20


def test_a_program_that_fails_ends_as_it_says(shared_url: str) -> None:
    run("raises", shared_url, code=7)


def test_what_sends_when_all_is_closed_is_told_so(shared_url: str) -> None:
    done = subprocess.run(
        command("sends_too_late", shared_url),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert "BrokerClosed: the program ends" in done.stderr
    assert {"first"} == stored(shared_url)


def test_a_child_of_a_store_in_memory_is_told_that_it_has_only_a_copy() -> None:
    done = subprocess.run(
        command("forks_after", "memory://"), capture_output=True, text=True, timeout=60, check=False
    )

    assert "its jobs are in the parent process" in done.stderr


def test_a_program_that_waits_is_ended_by_an_interrupt(shared_url: str) -> None:
    process = subprocess.Popen(
        command("waits", shared_url), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert "waiting\n" == process.stdout.readline()
    time.sleep(0.2)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)

    assert time.monotonic() - began < 10
    assert -signal.SIGINT == process.returncode
    assert said.rstrip().endswith("KeyboardInterrupt")
    assert "Exception ignored" not in said


def test_a_call_that_is_interrupted_at_any_moment_neither_hangs_nor_is_done_in_part() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.sync.programs", "interrupts", "memory://"],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )

    assert ("done\n", 0) == (done.stdout, done.returncode), done.stderr


def test_a_program_whose_server_is_silent_ends_soon_after_its_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}?deadline=1"
        began = time.monotonic()
        done = subprocess.run(
            command("plain", url), capture_output=True, text=True, timeout=60, check=False
        )

    assert time.monotonic() - began < 20
    assert "BrokerUnavailable" in done.stderr.splitlines()[-1]
