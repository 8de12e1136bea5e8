"""`bee delete`: archived jobs, exactly those."""

from __future__ import annotations

import bee_core as bee

from .conftest import RunBee
from .support import Terminal, fail, send, states, use


def test_ids_are_deleted_and_the_others_said_by_name(run_bee: RunBee, store_url: str) -> None:
    fail(store_url, "mail", "x", "y")
    send(store_url, "mail", "live")

    ended = run_bee("delete", "mail", "x", "live", "nobody", "--url", store_url)

    assert 1 == ended.returncode
    assert "deleted 1 archived job of mail, 2 not\n" == ended.stdout
    assert [
        "live: live (ready), so it was left alone: bee cancel is for those",
        "nobody: unknown here: done and deleted, or never sent to this queue",
    ] == ended.stderr.splitlines()
    assert {"y": "archived", "live": "ready"} == states(store_url, "mail")


def test_an_id_stands_for_all_that_was_archived_under_it(run_bee: RunBee, store_url: str) -> None:
    fail(store_url, "mail", "x")
    fail(store_url, "mail", "x")

    ended = run_bee("delete", "mail", "x", "--url", store_url)

    assert 0 == ended.returncode
    assert {} == dict(use(store_url, lambda store: store.stats("mail")).archived)


def test_filters_choose(run_bee: RunBee, store_url: str) -> None:
    fail(store_url, "mail", *(f"x-{number}" for number in range(20)))
    send(store_url, "mail", "c", "live")
    use(store_url, lambda store: store.cancel("mail", ["c"], to=bee.Archive()))

    refused = run_bee("delete", "mail", "--reason", "failed", "--url", store_url)
    ended = run_bee("delete", "mail", "--reason", "failed", "-y", "--url", store_url)

    assert 2 == refused.returncode
    assert "20 archived jobs of mail:" in refused.stderr
    assert (0, "deleted 20 archived jobs of mail\n") == (ended.returncode, ended.stdout)
    assert {"c": "archived", "live": "ready"} == states(store_url, "mail")


def test_on_a_terminal_it_asks(valkey_url: str) -> None:
    fail(valkey_url, "mail", "x")
    terminal = Terminal(["delete", "mail", "--all", "--url", valkey_url])
    try:
        terminal.wait_for("delete 1 archived job of mail? [y/N]")
        terminal.wait_until_it_reads()
        terminal.press("\x03")

        assert 1 == terminal.end()
    finally:
        terminal.close()
    assert "Traceback" not in terminal.shown
    assert {"x": "archived"} == states(valkey_url, "mail")
