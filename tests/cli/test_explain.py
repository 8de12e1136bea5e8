"""`bee explain`, against real servers, and what it says when there is none."""

from __future__ import annotations

import asyncio
import json

import pytest

import bee_core
from bee_core.message import Settlement
from tests.servers import PgServer, RedisServer, free_port

from .conftest import Bee


class Work(bee_core.Job):
    """Some work."""


def fail_once(url: str, queue: str) -> None:
    """Leave a job in the store that has failed once, and waits for its next run."""

    async def go() -> None:
        async with bee_core.connect(url) as broker:
            await bee_core.Queue(broker, queue, Work).send(Work(), id="a")
            (lease,) = await broker.lease(queue, limit=1, duration=60, holder="ann:1")
            note = bee_core.Note("failed", "Traceback ...")
            again = bee_core.Reschedule(3600)
            settlement = Settlement(lease.receipt, again, note, summary="OSError: disk full")
            await broker.settle(queue, [settlement])

    asyncio.run(go())


@pytest.fixture(params=["valkey", "pg"])
def url(request: pytest.FixtureRequest) -> str:
    """Of a real server, ready for use."""
    server: RedisServer | PgServer = request.getfixturevalue(request.param)
    return server.url if isinstance(server, RedisServer) else f"{server.database()}&migrate=1"


def test_a_job_that_failed_is_explained_with_its_past(bee: Bee, url: str) -> None:
    fail_once(url, "explained")

    answer = bee("explain", "explained", "a", "--url", url)

    assert 0 == answer.exit_code, answer.output
    first, *past = answer.output.splitlines()
    assert first.startswith("a in explained: it has failed, and is not due before ")
    assert past[0].endswith("  sent")
    assert "leased by ann:1, for " in past[1]
    assert "OSError: disk full; due again at " in past[1]


def test_a_queue_that_is_not_there_is_told_from_a_job_that_is_not(bee: Bee, url: str) -> None:
    fail_once(url, "mistyped")

    answer = bee("explain", "misstyped", "a", "--url", url)
    gone = bee("explain", "mistyped", "b", "--url", url)

    assert (1, 1) == (answer.exit_code, gone.exit_code)
    assert "no queue 'misstyped' in this store (do you mean mistyped?)" in answer.output
    assert "no queue" not in gone.output


def test_for_programs_it_is_one_json_object(bee: Bee, url: str) -> None:
    fail_once(url, "for-programs")

    answer = json.loads(bee("explain", "for-programs", "a", "--url", url, "--json").output)

    assert ("for-programs", "a", "delayed") == (answer["queue"], answer["id"], answer["state"])
    assert "NotDue" == answer["why"]["kind"]
    assert 1 == answer["counters"]["deliveries"]
    (episode,) = answer["history"]
    assert ("ann:1", "failed") == (episode["holder"], episode["reason"])


def test_a_job_that_nobody_knows_is_not_found(bee: Bee, url: str) -> None:
    fail_once(url, "something-here")

    answer = bee("explain", "something-here", "b", "--url", url)

    assert 1 == answer.exit_code
    assert answer.output.startswith("b in something-here: the store knows nothing of it")


def test_a_server_that_is_not_there_is_one_sentence(bee: Bee) -> None:
    answer = bee("explain", "mail", "a", "--url", f"redis://localhost:{free_port()}")

    assert 3 == answer.exit_code
    assert answer.output.startswith("Error: ")
    assert answer.output.endswith(", by --url)\n")
    assert "Traceback" not in answer.output


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("NO QUEUE", "a", "--url", "redis://localhost"), "is not a queue name"),
        (("mail", "", "--url", "redis://localhost"), "is not a job id"),
        (("mail", "a", "--url", "nosuch://"), "nosuch"),
    ],
)
def test_what_cannot_be_asked_is_wrong_use(bee: Bee, words: tuple[str, ...], problem: str) -> None:
    answer = bee("explain", *words)

    assert 2 == answer.exit_code
    assert problem in answer.output
