"""The command as a process of its own, as a shell starts it."""

from __future__ import annotations

from .conftest import RunBee


def test_it_says_its_version(run_bee: RunBee) -> None:
    ended = run_bee("--version")

    assert (0, "") == (ended.returncode, ended.stderr)
    assert ended.stdout.startswith("bee, version ")


def test_a_command_that_does_not_exist_is_wrong_use(run_bee: RunBee) -> None:
    ended = run_bee("fly")

    assert (2, "") == (ended.returncode, ended.stdout)
    assert "No such command 'fly'" in ended.stderr


def test_a_store_is_empty_and_ready(run_bee: RunBee, store_url: str) -> None:
    ended = run_bee("explain", "mail", "a", env={"BEE_URL": store_url})

    told = "Error: no queue 'mail' in this store; there is none\n"
    assert (1, "", told) == (ended.returncode, ended.stdout, ended.stderr)
