"""`bee pause`, `bee resume` and `bee purge`."""

from __future__ import annotations

import pytest

from .conftest import RunBee
from .support import fail, lease, send, states, use


def test_a_queue_is_paused_and_resumed(run_bee: RunBee, store_url: str) -> None:
    send(store_url, "mail", "a", "b")
    send(store_url, "films", "f")
    lease(store_url, "mail")

    paused = run_bee("pause", "mail", "films", "--url", store_url)
    nothing = lease(store_url, "mail")
    again = run_bee("pause", "mail", "--url", store_url)
    resumed = run_bee("resume", "mail", "--url", store_url)
    still = run_bee("resume", "mail", "--url", store_url)

    assert (0, "mail: paused; 1 job still running\nfilms: paused\n") == (
        paused.returncode,
        paused.stdout,
    )
    assert [] == nothing
    assert "mail: was paused already; 1 job still running\n" == again.stdout
    assert (0, "mail: resumed; 1 job ready\n") == (resumed.returncode, resumed.stdout)
    assert "mail: was not paused; 1 job ready\n" == still.stdout
    assert ["b"] == lease(store_url, "mail")


def test_a_name_that_nobody_uses_changes_nothing(run_bee: RunBee, store_url: str) -> None:
    send(store_url, "mail", "a")

    ended = run_bee("pause", "mail", "mial", "--url", store_url)

    assert (1, "") == (ended.returncode, ended.stdout)
    assert (
        "Error: no queue 'mial' in this store (do you mean mail?); there are: mail\n"
        == ended.stderr
    )
    assert not use(store_url, lambda store: store.stats("mail")).paused


def test_purge_deletes_what_waits(run_bee: RunBee, store_url: str) -> None:
    fail(store_url, "mail", "x")
    send(store_url, "mail", "runs", "a", "b")
    lease(store_url, "mail")
    send(store_url, "mail", "later", delay=3600)

    refused = run_bee("purge", "mail", "--url", store_url)
    said = run_bee("purge", "mail", "--dry-run", "--url", store_url)
    before = states(store_url, "mail")
    ended = run_bee("purge", "mail", "-y", "--url", store_url)
    again = run_bee("purge", "mail", "-y", "--url", store_url)

    assert (2, "") == (refused.returncode, refused.stdout)
    assert "delete 2 ready, 1 delayed, 0 blocked of mail for ever? There is no" in refused.stderr
    assert (
        "would delete 2 ready, 1 delayed, 0 blocked of mail for ever; nothing was done\n"
        == said.stdout
    )
    assert 5 == len(before)
    assert (0, "deleted 3 waiting jobs of mail\n") == (ended.returncode, ended.stdout)
    assert "nothing waits in mail: nothing to do\n" == again.stdout
    assert {"x": "archived", "runs": "leased"} == states(store_url, "mail")


def test_purge_of_the_archive(run_bee: RunBee, store_url: str) -> None:
    fail(store_url, "mail", *(f"x-{number}" for number in range(9)))
    send(store_url, "mail", "a")
    archive = ("purge", "mail", "--archive", "--url", store_url)

    old = run_bee(*archive, "--older-than", "1h")
    said = run_bee(*archive, "--older-than", "1ms", "--keep", "2", "--dry-run")
    kept = run_bee(*archive, "--keep", "2", "-y")
    left = states(store_url, "mail")
    rest = run_bee(*archive, "--older-than", "1ms", "-y")

    assert "no archived job of mail is like that: nothing to do\n" == old.stdout
    assert "would delete 7 archived jobs of mail that are older than 0s for ever" in said.stdout
    assert (0, "deleted 7 archived jobs of mail\n") == (kept.returncode, kept.stdout)
    assert 3 == len(left)
    assert "deleted 2 archived jobs of mail\n" == rest.stdout
    assert {"a": "ready"} == states(store_url, "mail")


def test_dropping_a_queue(run_bee: RunBee, store_url: str) -> None:
    fail(store_url, "mail", "x")
    send(store_url, "mail", "runs", "a")
    lease(store_url, "mail")

    ended = run_bee("purge", "mail", "--drop", "-y", "--url", store_url)
    again = run_bee("purge", "mail", "--drop", "-y", "--url", store_url)

    gone = "1 ready, 0 delayed, 0 blocked, 1 running and 1 archived of mail"
    assert f"dropped {gone}, and the queue itself\n" == ended.stdout
    assert {} == states(store_url, "mail")
    assert 1 == again.returncode


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--archive", "--drop"), "not both"),
        (("--keep", "3"), "go with --archive"),
        (("--older-than", "7d"), "go with --archive"),
        (("--archive", "--older-than", "soon"), "is not a duration"),
    ],
)
def test_wrong_use(run_bee: RunBee, words: tuple[str, ...], problem: str) -> None:
    ended = run_bee("purge", "mail", *words, "-y", "--url", "redis://127.0.0.1:1")

    assert (2, "") == (ended.returncode, ended.stdout)
    assert problem in ended.stderr
