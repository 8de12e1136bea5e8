"""`bee cancel`: what waits, and what runs only if asked."""

from __future__ import annotations

import pytest

import bee_core as bee
from bee_core.broker import Store

from .conftest import RunBee
from .support import Jobs, Mail, Pay, fail, lease, send, states, use


def test_ids_are_cancelled_and_the_others_said_by_name(run_bee: RunBee, store_url: str) -> None:
    fail(store_url, "mail", "over")
    send(store_url, "mail", "runs", "-a", "b")
    assert ["runs"] == lease(store_url, "mail")

    ended = run_bee("cancel", "mail", "--url", store_url, "--", "-a", "runs", "over", "nobody")

    assert 1 == ended.returncode
    assert "cancelled 1 waiting job of mail, 3 not\n" == ended.stdout
    assert [
        "runs: runs on ann:1: --even-running cancels it, too",
        "over: over already, and in the archive: bee delete removes it from there",
        "nobody: unknown here: done and deleted, or never sent to this queue",
    ] == ended.stderr.splitlines()
    assert {"-a": "archived", "runs": "leased", "over": "archived", "b": "ready"} == states(
        store_url, "mail"
    )


def test_running_ones_if_that_is_asked_for(run_bee: RunBee, store_url: str) -> None:
    send(store_url, "mail", "runs")
    lease(store_url, "mail")

    ended = run_bee("cancel", "mail", "runs", "--even-running", "--delete", "--url", store_url)

    assert (0, "cancelled 1 live job of mail\n") == (ended.returncode, ended.stdout)
    assert {} == states(store_url, "mail")


@pytest.mark.parametrize(
    ("options", "left"),
    [
        (("--all",), {"runs": "leased"}),
        (("--all", "--even-running"), {}),
        (("--kind", "pay"), {"runs": "leased", "a": "ready", "later": "delayed"}),
        (("--state", "delayed"), {"runs": "leased", "a": "ready", "p": "ready"}),
        (
            ("--state", "leased", "--even-running"),
            {"a": "ready", "p": "ready", "later": "delayed"},
        ),
    ],
)
def test_filters_choose(
    run_bee: RunBee, valkey_url: str, options: tuple[str, ...], left: dict[str, str]
) -> None:
    send(valkey_url, "mail", "runs", "a")
    lease(valkey_url, "mail")
    send(valkey_url, "mail", "p", job=Pay("ada"))
    send(valkey_url, "mail", "later", delay=3600)

    ended = run_bee("cancel", "mail", *options, "--delete", "-y", "--url", valkey_url)

    assert 0 == ended.returncode
    assert left == states(valkey_url, "mail")


def test_a_successor_is_cancelled_and_who_runs_goes_on(run_bee: RunBee, store_url: str) -> None:
    async def follow(store: Store) -> None:
        queue = bee.Queue(store, "mail", Jobs)
        await queue.send(Mail("second"), id="a", if_taken=bee.Update())

    send(store_url, "mail", "a")
    lease(store_url, "mail")
    use(store_url, follow)

    ended = run_bee("cancel", "mail", "a", "--delete", "--url", store_url)

    assert 0 == ended.returncode
    assert "a: runs on; what was to follow it is cancelled\n" == ended.stderr
    stats = use(store_url, lambda store: store.stats("mail"))
    assert (1, 0) == (stats.leased, stats.blocked)


def test_a_job_whose_worker_is_silent_may_still_run(run_bee: RunBee, store_url: str) -> None:
    send(store_url, "mail", "a")
    lease(store_url, "mail", duration=0.001)

    ended = run_bee("cancel", "mail", "a", "--url", store_url)

    assert 1 == ended.returncode
    assert "a: was running on a worker that is silent: --even-running" in ended.stderr


def test_schedules_are_left_alone_unless_they_are_meant(run_bee: RunBee, store_url: str) -> None:
    async def plan(store: Store) -> None:
        headers = {"bee-kind": "schedule"}
        await store.send("mail", [bee.Draft("bee-schedule:x", b"{}", headers=headers)])

    use(store_url, plan)

    left = run_bee("cancel", "mail", "--all", "-y", "--url", store_url)
    said = run_bee("cancel", "mail", "--kind", "schedule", "--dry-run", "--url", store_url)

    assert "no waiting job of mail is like that: nothing to do\n" == left.stdout
    assert "would cancel 1 waiting job of mail; nothing was done" in said.stdout
    assert "schedule  ready" in said.stdout


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--state", "leased"), "say --even-running, too"),
        (("--state", "archived"), "'archived' is not one of"),
        (("a", "--state", "ready"), "not several of them"),
        ((), "say which"),
    ],
)
def test_wrong_use(run_bee: RunBee, words: tuple[str, ...], problem: str) -> None:
    ended = run_bee("cancel", "mail", *words, "--url", "redis://127.0.0.1:1")

    assert (2, "") == (ended.returncode, ended.stdout)
    assert problem in ended.stderr
