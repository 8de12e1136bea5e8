"""`bee schema`: the text that is committed, what is said of a change, what the store holds."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

import bee_core
from tests.servers import PgServer, free_port

from .conftest import Bee, RunBee
from .programs import SHOP, program

CHANGED = SHOP.replace('subject: str = ""', "subject: int = 0").replace("resize.v2", "resize.v3")


def fill(url: str, *drafts: bee_core.Draft, queue: str = "mail") -> None:
    async def send() -> None:
        async with bee_core.connect(url) as store:
            await store.send(queue, drafts)

    asyncio.run(send())


def mail(id: str, job: str, **options: float) -> bee_core.Draft:
    return bee_core.Draft(id, b'{"v":1,"job":%b}' % job.encode(), **options)


def test_the_schema_is_json_and_always_the_same_text(run_bee: RunBee) -> None:
    first = run_bee("schema", program())
    second = run_bee("schema", "shop", env={"PYTHONHASHSEED": "1"})

    schema = json.loads(first.stdout)
    assert (0, "") == (first.returncode, first.stderr)
    assert first.stdout == second.stdout
    assert ["films", "mail"] == list(schema["queues"])
    email = schema["queues"]["mail"]["$defs"]["SendEmail"]
    assert {"const": "send_email"} == email["properties"]["type"]
    assert ["type", "to"] == email["required"]


def test_one_queue_on_one_line(bee: Bee) -> None:
    answer = bee("schema", program(), "films", "--json")

    assert 1 == len(answer.output.splitlines())
    assert ["films"] == list(json.loads(answer.output)["queues"])


def test_no_change_and_more_are_fine(bee: Bee) -> None:
    Path("old.json").write_text(bee("schema", program()).output)
    program(SHOP.replace('subject: str = ""', 'subject: str = ""\n    cc: str | None = None'))

    answer = bee("schema", "shop", "--check", "old.json")

    assert (0, "fine: jobs of the old schema would be read\n") == (answer.exit_code, answer.output)


def test_a_change_that_jobs_do_not_survive_is_said_with_what_to_do(run_bee: RunBee) -> None:
    Path("old.json").write_text(run_bee("schema", program()).stdout)
    program(CHANGED)

    answer = run_bee("schema", "shop", "--check", "old.json")

    renamed = 'resize.v2: the tag of Resize was "resize.v2" and is "resize.v3"; '
    renamed += 'say tag="resize.v2", or keep the old class beside it'
    assert 1 == answer.returncode
    assert [
        f"films: {renamed}",
        f"mail: {renamed}",
        "mail: send_email.subject: was string, is integer; "
        "allow both for a while: a union of the old type and the new one",
    ] == answer.stdout.splitlines()


def test_changes_for_programs(bee: Bee) -> None:
    Path("old.json").write_text(bee("schema", program()).output)
    program(CHANGED)

    answer = bee("schema", "shop", "films", "--check", "old.json", "--json")

    (change,) = map(json.loads, answer.output.splitlines())
    assert 1 == answer.exit_code
    assert ("films", "resize.v2", True) == (change["queue"], change["where"], change["certain"])


def test_a_queue_that_is_gone(bee: Bee) -> None:
    Path("old.json").write_text(bee("schema", program()).output)
    program(SHOP.replace('films = hive.queue("films", Resize)', ""))

    answer = bee("schema", "shop", "--check", "old.json")

    assert 1 == answer.exit_code
    assert "films: all jobs: this queue is gone" in answer.output
    assert 0 == bee("schema", "shop", "mail", "--check", "old.json").exit_code


def test_what_is_in_the_store_is_read_with_the_classes_of_now(
    run_bee: RunBee, store_url: str
) -> None:
    fill(
        store_url,
        mail("a", '{"type":"send_email","to":"ada"}'),
        mail("b", '{"type":"send_email","to":"bob","subject":"hi"}', delay=3600),
        mail("c", '{"type":"resize.v2","path":"x"}'),
        bee_core.Draft("d", b"\xff"),
    )

    good = run_bee("schema", program(), "films", "--live", "--url", store_url)
    bad = run_bee("schema", program(CHANGED), "--live", "--url", store_url)

    assert (0, "fine: 0 jobs read\n") == (good.returncode, good.stdout)
    assert 1 == bad.returncode, bad.stderr
    said = bad.stdout.splitlines()
    assert "3 of 4 jobs would not be read" == said[-1]
    assert "mail: 1 x send_email: Expected `int`, got `str` - at `$.job.subject` (b)" in said
    assert "mail: 1 x resize.v2: unknown job kind 'resize.v2' (c)" in said
    assert any(line.startswith("mail: 1 x no job at all: ") for line in said)


def test_the_archive_is_read_if_that_is_asked_for(bee: Bee, valkey_url: str) -> None:
    jobs = [mail(f"{n:02}", '{"type":"gone"}') for n in range(5)]
    fill(valkey_url, *jobs)
    words = ["schema", program(), "mail", "--live", "--url", valkey_url]

    async def archive() -> None:
        async with bee_core.connect(valkey_url) as store:
            await store.cancel("mail", [job.id for job in jobs], to=bee_core.Archive())

    asyncio.run(archive())

    assert "fine: 0 jobs read\n" == bee(*words).output
    answer = json.loads(bee(*words, "--archived", "--json").output)
    assert (5, "gone", 3) == (answer["count"], answer["kind"], len(answer["ids"]))
    assert "2 of 2 jobs would not be read" in bee(*words, "--archived", "--sample", "2").output


def test_a_queue_with_a_codec_of_its_own_has_no_schema(bee: Bee) -> None:
    program(
        SHOP
        + """
class Mine:
    def encode(self, job): ...
    def decode(self, body): ...

mine = hive.queue("mine", Resize, codec=Mine())
"""
    )

    assert "left out: mine, which has a codec of its own\n" == bee("schema", "shop").stderr
    assert 2 == bee("schema", "shop", "mine").exit_code


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("nope",), 2, "there is no module 'nope'"),
        (("shop", "nope"), 2, "has no queue 'nope'"),
        (("shop", "--check", "nope"), 2, "does not exist"),
        (("shop", "--check", "shop.py"), 2, "is not what bee schema prints"),
        (("shop", "--check", "odd.json"), 2, "the old schema of 'mail' cannot be read"),
        (("shop", "--archived"), 2, "go with --live"),
        (("shop", "--live"), 2, "memory:// lives inside one process"),
        (("shop", "--live", "--url", f"redis://localhost:{free_port()}"), 3, "cannot reach"),
    ],
)
def test_what_goes_wrong(bee: Bee, words: tuple[str, ...], code: int, says: str) -> None:
    program()
    Path("odd.json").write_text('{"queues": {"mail": {"$ref": "#/$defs/nowhere"}}}')

    answer = bee("schema", *words)

    assert (code, "") == (answer.exit_code, answer.stdout)
    assert says in answer.stderr


def test_a_database_without_the_schema(run_bee: RunBee, pg: PgServer) -> None:
    answer = run_bee("schema", program(), "--live", "--url", pg.database())

    assert 3 == answer.returncode
    assert "bee db apply" in answer.stderr
