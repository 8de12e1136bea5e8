"""`bee list`: states, filters, causes, and what a pipe gets."""

from __future__ import annotations

import json
import shlex
import subprocess

import pytest

from bee_core.broker import Store

from .conftest import RunBee, bee_command, bee_environment
from .support import Pay, fail, lease, send, use, work


def ids(output: str) -> list[str]:
    """The first words of the lines below the titles."""
    return [line.split()[0] for line in output.splitlines()[1:]]


def test_jobs_are_listed_state_by_state(run_bee: RunBee, store_url: str) -> None:
    fail(store_url, "mail", "x")
    send(store_url, "mail", "a", "b")
    lease(store_url, "mail")
    send(store_url, "mail", "later", delay=3600)

    ended = run_bee("list", "mail", "--url", store_url)

    rows = {line.split()[0]: line for line in ended.stdout.splitlines()[1:]}
    assert (0, "") == (ended.returncode, ended.stderr)
    assert ["b", "later", "a", "x"] == list(rows)
    assert ["b", "mail", "ready", "waits"] == rows["b"].split()[:4]
    assert ["later", "mail", "delayed", "in"] == rows["later"].split()[:4]
    assert ["a", "mail", "leased", "runs"] == rows["a"].split()[:4]
    assert ["x", "mail", "archived"] == rows["x"].split()[:3]
    assert rows["x"].endswith("1  ConnectionError: host 10.0.0.1 refused")


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (("--state", "archived"), ["y", "x"]),
        (("--state", "ready"), ["p", "a"]),
        (("--state", "blocked"), []),
        (("--kind", "pay"), ["p"]),
        (("--reason", "failed"), ["y", "x"]),
        (("--reason", "timed_out"), []),
        (("--error", "DISK FULL"), ["y"]),
        (("--error", "disk", "--kind", "pay"), []),
        (("--since", "1h"), ["p", "a", "y", "x"]),
        (("-n", "3"), ["p", "a", "y"]),
    ],
)
def test_filters(
    run_bee: RunBee, valkey_url: str, options: tuple[str, ...], found: list[str]
) -> None:
    fail(valkey_url, "mail", "x")
    fail(valkey_url, "mail", "y", error="disk full")
    send(valkey_url, "mail", "p", job=Pay("ada"))
    send(valkey_url, "mail", "a")

    ended = run_bee("list", "mail", *options, "--url", valkey_url)

    assert 0 == ended.returncode
    assert found == ids(ended.stdout)
    assert found or ended.stdout == "no job of mail is like that\n"
    assert ("-n" in options) == (ended.stderr == "these are the first 3: -n 0 shows all\n")


def test_for_programs_each_job_is_an_object(run_bee: RunBee, store_url: str) -> None:
    fail(store_url, "mail", "x")
    send(store_url, "mail", "a")

    ready, archived = map(
        json.loads, run_bee("list", "mail", "--json", "--url", store_url).stdout.splitlines()
    )

    assert ("a", "mail", "ready", None) == (
        ready["id"],
        ready["kind"],
        ready["state"],
        ready["fingerprint"],
    )
    assert ("x", "failed", 1) == (
        archived["id"],
        archived["reason"],
        archived["counters"]["errors"],
    )
    assert "ConnectionError: host 10.0.0.1 refused" == archived["error"]
    assert archived["archived_at"] > archived["sent_at"] > 1e9
    assert "body" not in archived


def test_causes(run_bee: RunBee, store_url: str) -> None:
    fail(store_url, "mail", "a", "b", error="host 10.0.0.1 refused")
    fail(store_url, "mail", "c", error="host 10.0.0.2 refused")
    fail(store_url, "mail", "d", error="disk full")

    ended = run_bee("list", "mail", "--group", "--url", store_url)
    causes = run_bee("list", "mail", "--group", "--json", "--url", store_url).stdout.splitlines()

    refused, full = map(json.loads, causes)
    assert (3, "c", "mail") == (refused["jobs"], refused["example"], refused["kind"])
    assert "ConnectionError: host N refused" == refused["error"]
    assert (1, "d") == (full["jobs"], full["example"])
    assert [refused["fingerprint"], full["fingerprint"]] == ids(ended.stdout)
    found = run_bee(
        "list", "mail", "--fingerprint", refused["fingerprint"], "--url", store_url
    ).stdout
    assert {"a", "b", "c"} == set(ids(found))


def test_a_pipe_may_be_closed_at_any_time(valkey_url: str) -> None:
    send(valkey_url, "mail", *(f"{'long' * 40}{number}" for number in range(3000)))
    words = ["list", "mail", "-n", "0", "--url", valkey_url]

    reader = subprocess.Popen(
        bee_command(*words),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=bee_environment(),
    )
    assert reader.stdout is not None
    assert reader.stderr is not None
    reader.stdout.readline()
    reader.stdout.close()
    said = reader.stderr.read()
    reader.stderr.close()
    reader.wait(timeout=30)

    assert b"" == said


def test_all_of_a_long_queue_in_pages(run_bee: RunBee, valkey_url: str) -> None:
    send(valkey_url, "mail", *(f"job-{number}" for number in range(450)))

    shown = run_bee("list", "mail", "-n", "0", "--url", valkey_url).stdout

    assert [f"job-{number}" for number in range(450)] == ids(shown)


def test_what_is_not_a_job_is_listed_too(run_bee: RunBee, store_url: str) -> None:
    async def prepare(store: Store) -> None:
        from bee_core.message import Draft

        await store.send("mail", [Draft("ünï 日本", b"\xff\x00\x1b[31m")])

    use(store_url, prepare)
    before = run_bee("list", "mail", "--url", store_url).stdout
    work(store_url, "mail")

    after = run_bee("list", "mail", "--url", store_url).stdout

    assert before.splitlines()[1].startswith("ünï 日本  ?     ready")
    assert "malformed" not in before
    assert "not a job envelope" in after


def test_a_terminal_that_knows_no_such_letters_gets_escapes(
    run_bee: RunBee, valkey_url: str
) -> None:
    send(valkey_url, "mail", "日本\u202e")
    env = {"BEE_URL": valkey_url, "PYTHONIOENCODING": "latin-1"}

    shown = run_bee("list", "mail", env=env)

    assert (0, "") == (shown.returncode, shown.stderr)
    assert shown.stdout.splitlines()[1].startswith("\\u65e5\\u672c\\u202e")


@pytest.mark.parametrize(
    "words", [("info",), ("list", "mail"), ("show", "mail", "a", "--body"), ("top", "--once")]
)
def test_nobody_listens_at_all(valkey_url: str, words: tuple[str, ...]) -> None:
    send(valkey_url, "mail", "a")
    command = shlex.join(bee_command(*words, "--url", valkey_url))

    ended = subprocess.run(f"{command} >&- <&-", shell=True, env=bee_environment())

    assert 0 == ended.returncode


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--state", "lost"), "'lost' is not one of"),
        (("--since", "yesterday"), "is not a duration"),
        (("--fingerprint", "xyz"), "eight digits"),
        (("-n", "-1"), "-1 is not in the range"),
        (("--group", "--state", "ready"), "--group is for archived jobs"),
    ],
)
def test_wrong_use(run_bee: RunBee, words: tuple[str, ...], problem: str) -> None:
    ended = run_bee("list", "mail", *words, "--url", "redis://127.0.0.1:1")

    assert (2, "") == (ended.returncode, ended.stdout)
    assert problem in ended.stderr
