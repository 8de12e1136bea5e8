"""A broker that is in use when its process forks stays the parent's."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.worker.support import new_store

SERVERS = ["valkey", "pg"]


def fork(url: str, state: str) -> dict[str, Any]:
    command = [sys.executable, "-W", "error::ResourceWarning", "-m", "tests.stores.forking"]
    done = subprocess.run(
        [*command, url, state], capture_output=True, text=True, timeout=60, check=False
    )
    assert (0, "") == (done.returncode, done.stderr)
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("server", ["memory", *SERVERS])
def test_in_the_child_every_verb_is_refused_and_the_parent_goes_on_undisturbed(
    server: str, request: pytest.FixtureRequest
) -> None:
    told = fork(new_store(request, server), "used")

    for verb, answer in told["verbs"].items():
        assert answer.startswith("BrokerClosed: "), verb
        assert "was used before a fork" in answer, verb
    assert ("done" == told["clone"]) == (server != "memory")
    assert ["after", "before", *["by the child"][: server != "memory"]] == told["parent"]


@pytest.mark.parametrize("server", SERVERS)
def test_a_broker_that_was_only_made_before_the_fork_can_be_used_in_both(
    server: str, request: pytest.FixtureRequest
) -> None:
    told = fork(new_store(request, server), "unused")

    assert {"done"} == set(told["verbs"].values())
    assert ["after", "by the child"] == told["parent"]
