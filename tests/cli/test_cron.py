"""`bee cron`: what a program declares, what the store knows, a job by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import bee_core as bee
from bee_core.broker import Store

from .conftest import RunBee
from .support import states, use

PROGRAM = """
import bee_core as bee

class Report(bee.Job):
    kind: str

hive = bee.Hive(observers=())
desk = hive.queue("desk", Report)
more = hive.queue("more", Report)
desk.schedule("nightly", Report("sales"), cron="30 3 * * *", tz="Europe/Berlin")
desk.schedule("pulse", Report("pulse"), every=60, priority=3)
more.schedule("pulse", Report("other"), every=3600)
empty = bee.Hive()

@desk.handler
async def handle(job: Report) -> None: ...
"""


@pytest.fixture(autouse=True)
def _program(tmp_path: Path) -> None:
    (tmp_path / "office.py").write_text(PROGRAM)


def test_schedules_before_and_after_a_worker_has_run(run_bee: RunBee, store_url: str) -> None:
    env = {"BEE_URL": store_url}

    before = run_bee("cron", "list", "office:hive", env=env)
    worked = run_bee("worker", "office:hive", "--until-empty", env=env)
    after = run_bee("cron", "list", "office:hive", "--url", store_url)

    nightly, _, _, pulse, *_ = before.stdout.splitlines()[1:]
    assert (0, "") == (before.returncode, before.stderr)
    assert nightly.startswith("nightly  desk   30 3 * * * Europe/Berlin: at 03:30 every day  20")
    assert nightly.endswith("never      not planned: no worker that declares it has run")
    assert pulse.startswith("pulse    desk   every 1m  ")
    assert 0 == worked.returncode, worked.stderr
    assert 10 == len(after.stdout.splitlines())
    assert after.stdout.splitlines()[1].endswith("never      waits for its time")


def test_for_programs_each_schedule_is_an_object(run_bee: RunBee, store_url: str) -> None:
    env = {"BEE_URL": store_url}
    run_bee("worker", "office:hive", "--until-empty", env=env)

    lines = run_bee("cron", "list", "office:hive", "--json", env=env).stdout.splitlines()

    nightly, pulse, other = map(json.loads, lines)
    assert ("nightly", "desk", "30 3 * * *", "Europe/Berlin", None) == tuple(
        nightly[name] for name in ("name", "queue", "cron", "tz", "every")
    )
    assert pulse["state"] in ("delayed", "ready")  # a minute may have begun since
    assert [60.0, 60.0] == [
        after - before for before, after in zip(pulse["next"], pulse["next"][1:], strict=False)
    ]
    assert (None, None) == (other["state"], other["last"])


def test_a_schedule_that_was_planned_otherwise(
    run_bee: RunBee, store_url: str, tmp_path: Path
) -> None:
    env = {"BEE_URL": store_url}
    run_bee("worker", "office:hive", "--until-empty", env=env)
    (tmp_path / "newer.py").write_text(PROGRAM.replace("every=60", "every=30"))

    shown = run_bee("cron", "list", "newer:hive", env=env).stdout

    assert "planned otherwise (every 60 s), until a worker of this program starts" in shown


def test_a_job_by_hand_leaves_the_schedule_as_it_is(run_bee: RunBee, store_url: str) -> None:
    env = {"BEE_URL": store_url}

    first = run_bee("cron", "run", "office:hive", "nightly", env=env)
    second = run_bee("cron", "run", "office:hive", "pulse", "--queue", "desk", "--json", env=env)

    assert 0 == first.returncode
    assert first.stdout.startswith("sent nightly@by-hand-")
    assert first.stdout.endswith(" to desk\n")
    id = json.loads(second.stdout)["id"]
    assert {first.stdout.split()[1]: "ready", id: "ready"} == states(store_url, "desk")

    async def look(store: Store) -> bee.Stored | None:
        return await store.get("desk", id)

    stored = use(store_url, look)
    assert stored is not None
    assert (3, b'{"v":1,"job":{"type":"report","kind":"pulse"}}') == (stored.priority, stored.body)


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        (("run", "office:hive", "weekly"), 1, "no schedule 'weekly'; there are: nightly (in desk)"),
        (("run", "office:hive", "pulse"), 2, "say which, --queue desk or more"),
        (("run", "office:hive", "nightly", "--queue", "more"), 1, "no schedule 'nightly' in more"),
        (("list", "nosuch"), 2, "there is no module 'nosuch'"),
        (("list", "office:nothing"), 2, "has no 'nothing'"),
        (("list", "office:hive", "--url", "memory://"), 2, "lives inside one process"),
        (("run", "office:hive", "nightly", "--url", "memory://"), 2, "lives inside one process"),
        (("list", "office:hive", "--url", "redis://127.0.0.1:1"), 3, "cannot reach the server"),
    ],
)
def test_what_cannot_be_done_is_a_sentence(
    run_bee: RunBee, valkey_url: str, words: tuple[str, ...], code: int, problem: str
) -> None:
    ended = run_bee("cron", *words, env={"BEE_URL": valkey_url})

    assert (code, "") == (ended.returncode, ended.stdout)
    assert problem in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_program_without_schedules(run_bee: RunBee) -> None:
    assert "no schedules\n" == run_bee("cron", "list", "office:empty").stdout
