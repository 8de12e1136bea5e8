"""The catalogue of bad handlers: whatever one does, the other jobs of its worker are served."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys

import pytest

import bee_core as bee

from . import bad_handlers
from .bad_handlers import HARMLESS, Bad, Good
from .support import new_store

ON_SERVERS = [
    "block the loop",
    "block in a call for ever",
    "swallow every cancellation",
    "call exit",
    "raise CancelledError",
    "raise what cannot be printed",
    "fail 10,000 frames deep",
    "leak file descriptors",
]
SERVERS = ["valkey", "pg"]
GOOD = [0, 1, 2, 3, 4]
CASES = [("memory", name) for name in HARMLESS]
CASES += [(server, name) for server in SERVERS for name in ON_SERVERS]


@pytest.mark.parametrize(("server", "name"), CASES)
async def test_the_other_jobs_are_served_and_the_bad_one_ends_as_its_policy_says(
    server: str, name: str, request: pytest.FixtureRequest
) -> None:
    misdeed = HARMLESS[name]
    hive, queue = bad_handlers.hive_on(new_store(request, server), misdeed.do)
    with bad_handlers.cleaned_up():
        async with hive, hive.working():
            await queue.send(Good(100), id="before")
            await queue.send(Bad(name), id="bad", policy=bee.Policy(timeout=misdeed.timeout))
            await queue.send(Good(101), id="beside")
            try:
                await queue.result("bad", timeout=20)
                reason, detail = "succeeded", ""
            except bee.JobFailed as error:
                reason, detail = error.note.reason, error.note.detail

            assert (misdeed.ends, True) == (reason, misdeed.tells in detail), detail
            assert [100, 101] == [await queue.result(id, timeout=20) for id in ("before", "beside")]
            assert GOOD == await bad_handlers.serve_some(queue)
            assert hive.health().alive


def run(url: str, *names: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.worker.bad_handlers", url, *names],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("server", ["memory", *SERVERS])
def test_a_child_that_a_handler_forks_ends_with_it_and_harms_nobody(
    server: str, request: pytest.FixtureRequest
) -> None:
    codes = {
        "fork and exit": 7,
        "fork and return": 0,
        "fork and raise": 1,
        "fork in a thread and return": 0,
        "fork and send": 7,
    }
    done = run(new_store(request, server), *codes)

    assert 0 == done.returncode, done.stderr
    assert {name: [code, GOOD] for name, code in codes.items()} == json.loads(done.stdout)
    assert "ValueError: the ground" == done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize("server", SERVERS)
def test_a_handler_that_uses_up_all_file_descriptors_delays_the_others_and_no_more(
    server: str, request: pytest.FixtureRequest
) -> None:
    done = run(new_store(request, server), "use up file descriptors")

    assert 0 == done.returncode, done.stderr
    assert {"use up file descriptors": [None, GOOD]} == json.loads(done.stdout)


@pytest.mark.parametrize(
    ("server", "name", "code"),
    [
        ("valkey", "exit at once", 13),
        ("pg", "kill the process", -signal.SIGKILL),
        ("valkey", "stop the loop", 1),
        ("pg", "cancel all tasks", 1),
    ],
)
async def test_a_handler_that_ends_its_process_does_not_end_it_in_silence_and_loses_no_job(
    server: str, name: str, code: int, request: pytest.FixtureRequest
) -> None:
    """Its leases run out, which counts no failure; the next process serves what is left."""

    async def behave(job: Bad) -> str:
        return "behaved"

    store = new_store(request, server)
    first = await asyncio.to_thread(run, store, name)
    hive, queue = bad_handlers.hive_on(store, behave)
    async with hive, hive.working():
        result = await queue.result(name, timeout=20)
        before = await queue.result(f"before {name}", timeout=20)
        bad = await hive.broker.get("jobs", name)

    assert code == first.returncode, first.stderr
    assert (name in ("exit at once", "kill the process")) == (first.stderr == "")
    assert -1 == before
    assert result == ("behaved" if bad is not None and bad.counters.deliveries == 2 else None)
    assert bad is not None
    assert (0, 0) == (bad.counters.errors, bad.counters.timeouts)
    assert bad.counters.stalls <= 1
