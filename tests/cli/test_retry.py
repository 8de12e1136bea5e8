"""`bee retry`: exactly what was asked for, once, and the rest by name."""

from __future__ import annotations

import json
import re

import pytest

import bee_core as bee
from bee_core.broker import Store

from .conftest import RunBee
from .support import Jobs, Mail, Pay, Terminal, fail, lease, send, states, use


def test_ids_are_retried_and_the_others_said_by_name(run_bee: RunBee, store_url: str) -> None:
    fail(store_url, "mail", "x", "-y", "z")
    send(store_url, "mail", "live")

    ended = run_bee("retry", "mail", "--url", store_url, "--", "x", "-y", "live", "nobody")

    assert 1 == ended.returncode
    assert "retried 2 archived jobs of mail, 2 not\n" == ended.stdout
    assert [
        "live: live already (ready), so there is nothing to retry",
        "nobody: unknown here: done and deleted, or never sent to this queue",
    ] == ended.stderr.splitlines()
    assert {"x": "ready", "-y": "ready", "live": "ready", "z": "archived"} == states(
        store_url, "mail"
    )


def test_a_retried_job_begins_anew(run_bee: RunBee, store_url: str) -> None:
    fail(store_url, "mail", "x")

    ended = run_bee("retry", "mail", "x", "--url", store_url)

    assert (0, "") == (ended.returncode, ended.stderr)
    stored = use(store_url, lambda store: store.get("mail", "x"))
    assert stored is not None
    assert 0 == stored.counters.errors
    assert 1 == len(stored.history)


def test_ids_come_from_a_list_through_a_pipe(run_bee: RunBee, store_url: str) -> None:
    fail(store_url, "mail", "x", "y", error="disk full")
    fail(store_url, "mail", "z")
    listed = run_bee("list", "mail", "--json", "--error", "disk", "--url", store_url).stdout
    lines = "".join(f"{json.loads(line)['id']}\r\n\n" for line in listed.splitlines())

    ended = run_bee("retry", "mail", "-", "--url", store_url, input=lines)

    assert (0, "retried 2 archived jobs of mail\n") == (ended.returncode, ended.stdout)
    assert {"x": "ready", "y": "ready", "z": "archived"} == states(store_url, "mail")


@pytest.mark.parametrize(
    ("filters", "retried"),
    [
        (("--all",), {"x", "y", "p"}),
        (("--kind", "mail"), {"x", "y"}),
        (("--error", "disk"), {"y"}),
        (("--reason", "cancelled"), {"p"}),
        (("--since", "1h"), {"x", "y", "p"}),
    ],
)
def test_filters_choose(
    run_bee: RunBee, valkey_url: str, filters: tuple[str, ...], retried: set[str]
) -> None:
    fail(valkey_url, "mail", "x")
    fail(valkey_url, "mail", "y", error="disk full")
    send(valkey_url, "mail", "p", job=Pay("ada"))
    use(valkey_url, lambda store: store.cancel("mail", ["p"], to=bee.Archive()))

    ended = run_bee("retry", "mail", *filters, "-y", "--url", valkey_url)

    assert 0 == ended.returncode
    assert retried == {id for id, state in states(valkey_url, "mail").items() if state == "ready"}


def test_a_fingerprint_chooses_what_failed_alike(run_bee: RunBee, store_url: str) -> None:
    fail(store_url, "mail", "a", error="host 10.0.0.1 refused")
    fail(store_url, "mail", "b", error="host 10.0.0.2 refused")
    fail(store_url, "mail", "c", error="disk full")
    listed = run_bee("list", "mail", "--group", "--json", "--url", store_url).stdout
    mark = json.loads(listed.splitlines()[0])["fingerprint"]

    only_said = run_bee("retry", "mail", "--fingerprint", mark, "--dry-run", "--url", store_url)
    before = states(store_url, "mail")
    ended = run_bee("retry", "mail", "--fingerprint", mark, "-y", "--url", store_url)

    assert (0, "") == (only_said.returncode, only_said.stderr)
    assert [
        "2 archived jobs of mail:",
        "       2  mail  failed  ConnectionError: host N refused",
        "would retry 2 archived jobs of mail; nothing was done",
    ] == only_said.stdout.splitlines()
    assert {"archived"} == set(before.values())
    assert "retried 2 archived jobs of mail\n" == ended.stdout
    assert {"a": "ready", "b": "ready", "c": "archived"} == states(store_url, "mail")


def test_without_a_terminal_it_has_to_be_told(run_bee: RunBee, store_url: str) -> None:
    fail(store_url, "mail", "x")

    ended = run_bee("retry", "mail", "--all", "--url", store_url)

    assert (2, "") == (ended.returncode, ended.stdout)
    assert "nothing was done: -y goes on without asking" in ended.stderr
    assert {"x": "archived"} == states(store_url, "mail")


@pytest.mark.parametrize(("answer", "code", "state"), [("y\n", 0, "ready"), ("n\n", 1, "archived")])
def test_on_a_terminal_it_asks(valkey_url: str, answer: str, code: int, state: str) -> None:
    fail(valkey_url, "mail", "x")
    terminal = Terminal(["retry", "mail", "--all", "--url", valkey_url])
    try:
        terminal.wait_for("retry 1 archived job of mail? [y/N]")
        terminal.press(answer)

        assert code == terminal.end()
    finally:
        terminal.close()
    assert {"x": state} == states(valkey_url, "mail")


def test_many_are_retried_in_batches(run_bee: RunBee, store_url: str) -> None:
    ids = [f"job-{number}" for number in range(450)]
    send(store_url, "mail", *ids)
    use(store_url, lambda store: store.cancel("mail", ids, to=bee.Archive()))

    ended = run_bee("retry", "mail", "--all", "-y", "--url", store_url)

    assert "retried 450 archived jobs of mail\n" == ended.stdout
    assert {"ready"} == set(states(store_url, "mail").values())


def test_ctrl_c_says_how_far_it_got(valkey_url: str) -> None:
    ids = [f"job-{number}" for number in range(20_000)]
    send(valkey_url, "mail", *ids)
    use(valkey_url, lambda store: store.cancel("mail", ids, to=bee.Archive()))
    terminal = Terminal(["retry", "mail", "--all", "-y", "--url", valkey_url])
    try:
        terminal.wait_for(" of 20000")
        terminal.press("\x03")

        assert 130 == terminal.end()
    finally:
        terminal.close()
    said = re.search(r"retried (\d+) archived jobs of mail", terminal.shown)
    stats = use(valkey_url, lambda store: store.stats("mail"))
    assert said is not None, terminal.shown
    assert 0 <= stats.ready - int(said[1]) <= 200  # one batch may have been under way
    assert 0 < stats.ready < 20_000
    assert "Traceback" not in terminal.shown


def test_of_an_id_that_was_archived_twice_the_last_is_meant(
    run_bee: RunBee, store_url: str
) -> None:
    async def twice(store: Store) -> None:
        queue = bee.Queue(store, "mail", Jobs)
        for to in ("first", "second"):
            await queue.send(Mail(to), id="x")
            await queue.cancel("x")

    use(store_url, twice)

    all_of_them = run_bee("retry", "mail", "--all", "-y", "--url", store_url)

    assert (0, "retried 1 archived job of mail\n") == (all_of_them.returncode, all_of_them.stdout)
    stored = use(store_url, lambda store: store.get("mail", "x"))
    assert stored is not None
    assert b'"second"' in stored.body


def test_an_older_life_is_not_retried_because_it_is_like_that(
    run_bee: RunBee, store_url: str
) -> None:
    fail(store_url, "mail", "x")
    send(store_url, "mail", "x")
    use(store_url, lambda store: store.cancel("mail", ["x"], to=bee.Archive()))

    ended = run_bee("retry", "mail", "--reason", "failed", "-y", "--url", store_url)

    assert "no archived job of mail is like that: nothing to do\n" == ended.stdout
    assert {"x": "archived"} == states(store_url, "mail")


def test_a_running_job_is_live_already(run_bee: RunBee, store_url: str) -> None:
    send(store_url, "mail", "x")
    lease(store_url, "mail")

    ended = run_bee("retry", "mail", "x", "--url", store_url)

    assert 1 == ended.returncode
    assert "x: live already (leased), so there is nothing to retry\n" == ended.stderr


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "say which: ids (- reads them from standard input), filters, or --all"),
        (("x", "--all"), "not several of them"),
        (("x", "--kind", "mail"), "not several of them"),
        (("-",), "no id came from standard input"),
        (("",), "is not a job id"),
        (("a\nb",), "no control characters"),
        (("--reason", "bored"), "'bored' is not one of"),
    ],
)
def test_wrong_use(run_bee: RunBee, words: tuple[str, ...], problem: str) -> None:
    ended = run_bee("retry", "mail", *words, "--url", "redis://127.0.0.1:1")

    assert (2, "") == (ended.returncode, ended.stdout)
    assert problem in ended.stderr
    assert "Traceback" not in ended.stderr
