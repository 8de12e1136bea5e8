"""`bee replay`: one job of production on one's own desk."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import bee_core
from bee_core.cli.replay.running import rewound
from bee_core.export import export_line
from bee_core.message import Counters, Note
from bee_core.stored import State, Stored

from .conftest import Bee, RunBee
from .programs import program

BANK = """
import asyncio, os
import bee_core as bee

class Charge(bee.Job):
    account: str
    amount: int = 1

class Tell(bee.Job):
    text: str

hive = bee.Hive(policy=bee.Policy(on_error=bee.Repeat(2)))
charges = hive.queue("charges", Charge | Tell)
news = hive.queue("news", Tell)
charges.schedule("hourly", Tell("hi"), every=1)

@charges.handler
async def charge(job, delivery):
    match job:
        case Charge(account="fine"):
            delivery.then(Tell("paid"), delay=30, id="told")
            await news.send(Tell("fine"), id="news")
            return {"attempt": delivery.attempt}
        case Charge(account="slow"):
            await asyncio.sleep(60)
        case Charge():
            print("looking for", job.account)
            balance = {"ada": 3}
            return balance[job.account] - job.amount

@charges.on_failure
async def failed(failure): ...

@news.on(Tell, process=True)
def tell(job):
    raise ValueError("in a child")
"""


def job(account: str = "bob", **changes: Any) -> Stored:
    body = b'{"v":1,"job":{"type":"charge","account":"%b"}}' % account.encode()
    options: dict[str, Any] = {
        "id": account,
        "incarnation": 1,
        "state": State.ARCHIVED,
        "body": body,
        "headers": {},
        "priority": 0,
        "counters": Counters(deliveries=3, errors=3),
        "sent_at": 1.0,
        "due_at": 1.0,
        "note": Note("failed", "Traceback ..."),
    }
    return Stored(**(options | changes))


def exported(*jobs: Stored, queue: str = "charges") -> str:
    lines = [export_line(queue, one) + b"\n" for one in jobs]
    Path("jobs").write_bytes(b"".join(lines))
    return "jobs"


def test_a_job_that_failed_fails_here_and_shows_where(run_bee: RunBee) -> None:
    answer = run_bee("replay", exported(job()), program(BANK, "bank"))

    assert (1, "") == (answer.returncode, answer.stderr)
    said = answer.stdout.splitlines()
    assert "bob of queue charges, run here; its effects are real" == said[0]
    assert ["looking for bob", "Traceback (most recent call last):"] == said[1:3]
    assert 'bank.py", line ' in said[3]
    assert "KeyError: 'bob'" in said
    assert any(line.startswith("outcome:   failed after ") for line in said)
    assert "decision:  archived" in said
    assert said[-1].startswith("sent:      a failure job to charges as ")


def test_it_is_run_with_the_counters_of_its_last_run(run_bee: RunBee) -> None:
    second = job(counters=Counters(deliveries=2, errors=2))

    answer = run_bee("replay", exported(second), program(BANK, "bank"), "--json")

    found = json.loads(answer.stdout)
    assert (2, "failed", "KeyError: 'bob'") == (found["run"], found["outcome"], found["error"])
    assert found["decision"].startswith("again in ")
    assert "looking for bob\n" == answer.stderr
    assert [] == found["sent"]


def test_what_it_sends_stays_here_and_is_shown(run_bee: RunBee) -> None:
    fine = job("fine", counters=Counters(), note=None)

    answer = run_bee("replay", exported(fine), program(BANK, "bank"))

    said = answer.stdout.splitlines()
    assert (0, "") == (answer.returncode, answer.stderr)
    assert said[1].startswith("outcome:   succeeded after ")
    assert said[1].endswith(" s, as run 1")
    assert ["returned:  {'attempt': 1}", "decision:  done, and deleted"] == said[2:4]
    assert [
        'sent:      tell to charges as told, in 30 s: {"v":1,"job":{"type":"tell","text":"paid"}}',
        'sent:      tell to news as news: {"v":1,"job":{"type":"tell","text":"fine"}}',
    ] == said[4:]


def test_another_timeout_may_be_given(run_bee: RunBee) -> None:
    exported(job("slow", headers={"bee-policy": '{"timeout":50,"on_timeout":{"type":"delete"}}'}))

    answer = run_bee("replay", "jobs", program(BANK, "bank"), "--timeout", "300ms")

    assert 1 == answer.returncode
    assert "outcome:   timed out after " in answer.stdout
    assert "await asyncio.sleep(60)" in answer.stdout
    assert "decision:  done, and deleted" in answer.stdout


def test_the_debugger_opens_where_it_raised(run_bee: RunBee) -> None:
    words = ["replay", exported(job()), program(BANK, "bank"), "--pdb", "--timeout", "none"]

    answer = run_bee(*words, input="p balance\np job\nq\n")

    assert "-> return balance[job.account] - job.amount" in answer.stdout
    assert "(Pdb) {'ada': 3}" in answer.stdout
    assert "(Pdb) Charge(account='bob', amount=1)" in answer.stdout


@pytest.mark.parametrize(
    ("queue", "body", "says"),
    [
        ("news", b'{"v":1,"job":{"type":"tell","text":"x"}}', "where the debugger cannot look"),
        ("charges", b'{"v":1,"job":{"type":"gone"}}', "there is nothing to debug"),
    ],
)
def test_where_the_debugger_cannot_look(
    run_bee: RunBee, queue: str, body: bytes, says: str
) -> None:
    exported(job(body=body), queue=queue)

    answer = run_bee("replay", "jobs", program(BANK, "bank"), "--pdb")

    assert 1 == answer.returncode
    assert says in answer.stderr


def test_what_is_no_job_is_told_from_one_that_fails(run_bee: RunBee) -> None:
    answer = run_bee("replay", exported(job(body=b"\xff")), program(BANK, "bank"))

    assert 1 == answer.returncode
    assert "outcome:   malformed after " in answer.stdout
    assert "decision:  archived" in answer.stdout


def test_of_several_jobs_one_is_chosen(bee: Bee) -> None:
    exported(job("bob"), job("fine"))
    program(BANK, "bank")

    assert 0 == bee("replay", "jobs", "bank", "--id", "fine").exit_code
    answer = bee("replay", "jobs", "bank")
    assert (2, "Error: jobs has 2 jobs: say which by --id, of bob, fine\n") == (
        answer.exit_code,
        answer.stderr,
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("nope", "bank"), "does not exist"),
        (("jobs", "nope"), "there is no module 'nope'"),
        (("jobs", "bank", "--id", "x"), "jobs has no job 'x'; it has bob"),
        (("jobs", "bank", "--queue", "x"), "has no queue 'x'; it has: charges, news"),
        (("jobs", "bank", "--timeout", "x"), "is not a duration"),
        (("bank.py", "bank"), "line 2: not a job of bee archive export"),
        (("empty", "bank"), "empty is empty"),
        (("newer", "bank"), "a job of a newer bee archive export: version 2"),
        (("jobs", "shop", "--queue", "mail"), "queue 'mail' has no handler in shop"),
    ],
)
def test_what_cannot_be_replayed_is_wrong_use(bee: Bee, words: tuple[str, ...], says: str) -> None:
    exported(job())
    program(BANK, "bank")
    program()
    Path("empty").touch()
    Path("newer").write_text('{"v":2,"queue":"charges","id":"a","state":"ready"}')

    answer = bee("replay", *words)

    assert (2, "") == (answer.exit_code, answer.stdout)
    assert says in answer.stderr


def test_from_the_store_to_the_desk(run_bee: RunBee, store_url: str) -> None:
    program(BANK.replace("bee.Repeat(2)", "bee.Archive()"), "bank")
    sent = run_bee(
        "send", "bank", "charges", '{"type": "charge", "account": "bob"}', "--url", store_url
    )

    async def work() -> None:
        async with bee_core.connect(store_url) as store:

            async def handle(job: Any) -> None:
                raise KeyError("bob")

            worker = bee_core.Worker(store, "charges", _Charge, handle, observers=())
            await worker.run(until_empty=True)

    class _Charge(bee_core.Job, tag="charge"):
        account: str

    asyncio.run(work())
    id = sent.stdout.strip()
    run_bee("archive", "export", "charges", id, "-o", "jobs", "--url", store_url)
    answer = run_bee("replay", "jobs", "bank")

    assert 1 == answer.returncode
    assert "KeyError: 'bob'" in answer.stdout


@pytest.mark.parametrize(
    ("counters", "note", "before"),
    [
        (Counters(), None, Counters(deliveries=1)),
        (Counters(deliveries=3, errors=3), Note("failed"), Counters(deliveries=3, errors=2)),
        (
            Counters(deliveries=4, stalls=1, timeouts=3),
            Note("timed_out"),
            Counters(deliveries=4, stalls=1, timeouts=2),
        ),
        (Counters(deliveries=2, errors=1), Note("succeeded"), Counters(deliveries=2, errors=1)),
        (Counters(deliveries=1), Note("stalled"), Counters(deliveries=1)),
    ],
)
def test_counters_are_turned_back_to_the_last_run(
    counters: Counters, note: Note | None, before: Counters
) -> None:
    assert before == rewound(counters, note)
