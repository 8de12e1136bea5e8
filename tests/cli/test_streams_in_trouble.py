"""Streams that are closed, or full, or that somebody hopes will be obeyed by a terminal."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

import bee_core as bee
from bee_core.broker import Store
from bee_core.message import Draft, Note, Settlement

from .conftest import Bee, RunBee, bee_command, bee_environment
from .support import Terminal, fail, send, states, use

EVIL = "\x1b]0;pwned\x07\x1b[2J\x9b31m"


def _shell(line: str, url: str) -> subprocess.CompletedProcess[str]:
    command = " ".join(bee_command())
    return subprocess.run(
        ["sh", "-c", line.replace("BEE", command)],
        capture_output=True,
        text=True,
        timeout=60,
        env=bee_environment() | {"BEE_URL": url},
    )


def _fill(url: str) -> None:
    """A failed job whose kind, headers and error would like to be obeyed."""
    body = json.dumps({"v": 1, "job": {"type": EVIL}}).encode()

    async def go(store: Store) -> None:
        await store.send("mail", [Draft("a\u202eb", body, headers={EVIL: EVIL})])
        (lease,) = await store.lease("mail", limit=1, duration=60, holder="h")
        note = Note("failed", EVIL)
        await store.settle("mail", [Settlement(lease.receipt, bee.Archive(), note)])

    use(url, go)


@pytest.mark.parametrize(
    "words",
    [
        ["retry", "mail", "--all", "--dry-run"],
        ["list", "mail"],
        ["list", "mail", "--group"],
        ["list", "mail", "--json"],
        ["show", "mail", "a\u202eb"],
        ["show", "mail", "a\u202eb", "--json"],
        ["explain", "mail", "a\u202eb"],
    ],
    ids=lambda words: " ".join(words[:2]) + words[-1][:8],
)
def test_nothing_from_a_store_moves_the_cursor_of_a_terminal(
    valkey_url: str, words: list[str]
) -> None:
    _fill(valkey_url)

    terminal = Terminal([*words, "--url", valkey_url], columns=500)
    try:
        assert 0 == terminal.end()
    finally:
        terminal.close()

    shown = set(terminal.shown)
    assert not {"\x1b", "\x07", "\x9b"} & shown
    assert "--json" in words or "\u202e" not in shown


def test_json_is_the_same_though_its_control_characters_are_escaped(
    bee: Bee, valkey_url: str
) -> None:
    _fill(valkey_url)

    shown = bee("show", "mail", "a\u202eb", "--json", "--url", valkey_url).output

    assert "\x9b" not in shown
    assert {EVIL: EVIL} == json.loads(shown)["headers"]
    assert EVIL == json.loads(shown)["note"]["detail"]


def test_closed_standard_input_is_empty_and_not_a_job(valkey_url: str) -> None:
    send(valkey_url, "mail", "-")

    ended = _shell("BEE cancel mail - <&-", valkey_url)

    assert (2, "") == (ended.returncode, ended.stdout)
    assert "no id came from standard input" in ended.stderr
    assert {"-": "ready"} == states(valkey_url, "mail")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_is_no_reason_for_a_traceback(
    valkey_url: str, tmp_path: Path, closed: str
) -> None:
    (tmp_path / "shop.py").write_text(
        "from tests.cli.support import *\nhive = bee.Hive()\nmail = hive.queue('mail', Mail)\n"
    )
    fail(valkey_url, "mail", "a")
    for words in ("send shop -", "archive export mail --all", "list mail", "retry mail a"):
        ended = _shell(f"BEE {words} {closed} ; echo $? > code", valkey_url)

        assert "0" == (tmp_path / "code").read_text().strip(), ended.stderr
        assert "Traceback" not in ended.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is full")
@pytest.mark.parametrize("words", ["list mail", "archive export mail --all", "info --json"])
def test_a_full_disk_is_one_sentence(valkey_url: str, words: str) -> None:
    fail(valkey_url, "mail", "a")

    ended = _shell(f"BEE {words} > /dev/full", valkey_url)

    expected = "Error: what it says cannot be written: No space left on device\n"
    assert (1, expected) == (ended.returncode, ended.stderr)


def test_an_export_that_is_nested_too_deeply_is_wrong_use(run_bee: RunBee, tmp_path: Path) -> None:
    body = "[" * 100_000 + "]" * 100_000
    line = f'{{"v": 1, "queue": "mail", "id": "a", "state": "ready", "body": {body}}}'
    (tmp_path / "deep.ndjson").write_text(line)

    for words in (["archive", "import"], ["replay"]):
        more = ["shop"] if words == ["replay"] else ["--dry-run"]
        ended = run_bee(*words, "deep.ndjson", *more)

        assert 2 == ended.returncode
        assert "line 1: not a job of bee archive export" in ended.stderr
        assert "Traceback" not in ended.stderr


def test_an_export_with_names_that_cannot_be_is_wrong_use(run_bee: RunBee, tmp_path: Path) -> None:
    line = json.dumps({"v": 1, "queue": "mail", "id": EVIL, "state": "ready", "body": None})
    (tmp_path / "evil.ndjson").write_text(line)

    for words in (["archive", "import"], ["replay"]):
        ended = run_bee(*words, "evil.ndjson", *(["shop"] if words == ["replay"] else []))

        assert 2 == ended.returncode
        assert "is not a job id: no control characters" in ended.stderr
