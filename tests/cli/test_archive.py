"""`bee archive export`: what is written, and that it can be read back."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import msgspec
import pytest

import bee_core
from bee_core.export import import_line
from bee_core.message import Settlement
from tests.servers import PgServer, RedisServer, free_port, valkey_binary

from .conftest import Bee, RunBee, bee_command, bee_environment

BODY = b'{"v":1,"job":{"type":"charge","account":"ada"}}'


def fail(url: str, id: str = "a", body: bytes = BODY) -> None:
    """Leave a job in the archive that has failed."""

    async def go() -> None:
        async with bee_core.connect(url) as store:
            draft = bee_core.Draft(id, body, priority=2, headers={"who": "me"}, key="k")
            await store.send("mail", [draft])
            (lease,) = await store.lease("mail", limit=1, duration=60, holder="ann:1")
            note = bee_core.Note("failed", "Traceback ...")
            counters = bee_core.Counters(errors=1)
            settlement = Settlement(
                lease.receipt, bee_core.Archive(), note, counters, summary="OSError: disk full"
            )
            await store.settle("mail", [settlement])

    asyncio.run(go())


def test_a_job_is_written_with_all_that_is_known_of_it(run_bee: RunBee, store_url: str) -> None:
    fail(store_url)

    answer = run_bee("archive", "export", "mail", "a", "--url", store_url)

    assert 0 == answer.returncode, answer.stderr
    line = json.loads(answer.stdout)
    assert (1, "mail", "a", "archived") == (line["v"], line["queue"], line["id"], line["state"])
    assert {"v": 1, "job": {"type": "charge", "account": "ada"}} == line["body"]
    assert ({"who": "me"}, 2, "k") == (line["headers"], line["priority"], line["key"])
    assert (1, 1) == (line["counters"]["deliveries"], line["counters"]["errors"])
    assert {"reason": "failed", "detail": "Traceback ..."} == line["note"]
    assert ["OSError: disk full"] == [episode["summary"] for episode in line["history"]]
    assert line["sent_at"] <= line["archived_at"]
    assert BODY == import_line(answer.stdout.encode()).content


def test_all_that_are_archived_go_into_a_file(run_bee: RunBee, store_url: str) -> None:
    for id, body in (("a", BODY), ("b", b"\xff\x00"), ("c", b"")):
        fail(store_url, id, body)

    answer = run_bee("archive", "export", "mail", "--all", "-o", "jobs", "--url", store_url)

    assert (0, "", "3 jobs written to jobs\n") == (
        answer.returncode,
        answer.stdout,
        answer.stderr,
    )
    jobs = [import_line(line) for line in Path("jobs").read_bytes().splitlines()]
    assert {"a": BODY, "b": b"\xff\x00", "c": b""} == {job.id: job.content for job in jobs}
    assert ["jobs"] == [file.name for file in Path.cwd().iterdir()]


def test_ids_can_come_from_standard_input(run_bee: RunBee, valkey_url: str) -> None:
    for id in ("a", "b", "c"):
        fail(valkey_url, id, BODY)

    words = ("archive", "export", "mail", "-", "--url", valkey_url)
    answer = run_bee(*words, input="c\na\n")

    assert 0 == answer.returncode, answer.stderr
    assert ["c", "a"] == [import_line(line.encode()).id for line in answer.stdout.splitlines()]
    assert 2 == run_bee(*words, input="").returncode


def test_jobs_that_wait_can_be_written_too(bee: Bee, valkey_url: str) -> None:
    async def send() -> None:
        async with bee_core.connect(valkey_url) as store:
            await store.send(
                "mail", [bee_core.Draft("later", BODY, 60), bee_core.Draft("now", BODY)]
            )

    asyncio.run(send())
    words = ["archive", "export", "mail", "--url", valkey_url]

    assert "" == bee(*words, "--all").output
    assert "later" == json.loads(bee(*words, "--all", "--state", "delayed").output)["id"]
    assert "now" == json.loads(bee(*words, "now").output)["id"]


def test_what_is_not_found_is_said_and_the_rest_is_written(run_bee: RunBee, store_url: str) -> None:
    fail(store_url)

    answer = run_bee("archive", "export", "mail", "x", "a", "--url", store_url)

    assert (1, "not found: x\n") == (answer.returncode, answer.stderr)
    assert "a" == json.loads(answer.stdout)["id"]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("mail",), 2, "say which: ids, or --all"),
        (("mail", "a", "--all"), 2, "not both"),
        (("mail", "a", "--state", "ready"), 2, "--state goes with --all"),
        (("mail", "a", "-o", "no/such/place"), 2, "no/such/place cannot be written"),
        (("NO QUEUE", "a"), 2, "is not a queue name"),
        (("mail", "a", "--url", "memory://"), 2, "memory:// lives inside one process"),
        (("mail", "a", "--url", f"redis://localhost:{free_port()}"), 3, "cannot reach"),
    ],
)
def test_what_goes_wrong(bee: Bee, words: tuple[str, ...], code: int, says: str) -> None:
    given = () if "--url" in words else ("--url", "redis://localhost:1")

    answer = bee("archive", "export", *words, *given)

    assert (code, "") == (answer.exit_code, answer.stdout)
    assert says in answer.stderr
    assert [] == list(Path.cwd().iterdir())


def test_a_database_without_the_schema(run_bee: RunBee, pg: PgServer) -> None:
    answer = run_bee("archive", "export", "mail", "a", "--url", pg.database())

    assert 3 == answer.returncode
    assert "bee db apply" in answer.stderr


def test_a_reader_that_has_enough_is_no_error(valkey_url: str) -> None:
    for number in range(3):
        fail(valkey_url, str(number), b'"%b"' % (b"x" * 200_000))
    words = bee_command("archive", "export", "mail", "--all", "--url", valkey_url)
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=bee_environment()
    ) as export:
        assert export.stdout is not None
        assert export.stderr is not None
        export.stdout.read(1)
        export.stdout.close()
        assert b"" == export.stderr.read()


# And back.


def test_what_was_exported_comes_back_with_all_it_had(run_bee: RunBee, store_url: str) -> None:
    fail(store_url)

    async def look() -> bee_core.Stored | None:
        async with bee_core.connect(store_url) as store:
            return await store.get("mail", "a")

    async def drop() -> None:
        async with bee_core.connect(store_url) as store:
            await store.drop("mail")

    before = asyncio.run(look())
    run_bee("archive", "export", "mail", "a", "-o", "jobs", "--url", store_url)
    asyncio.run(drop())

    first = run_bee("archive", "import", "jobs", "--url", store_url)
    second = run_bee("archive", "import", "jobs", "--url", store_url)

    after = asyncio.run(look())
    assert (0, "1 job taken in\n") == (first.returncode, first.stdout), first.stderr
    assert (1, "0 jobs taken in, 1 there already\n") == (second.returncode, second.stdout)
    assert before is not None
    assert after is not None
    assert before == msgspec.structs.replace(after, incarnation=before.incarnation)


def test_jobs_of_several_queues_in_any_order(bee: Bee, valkey_url: str) -> None:
    line = '{"v":1,"queue":"%s","id":"%s","state":"ready","body":{},"sent_at":1,"due_at":1}\n'
    Path("jobs").write_text(line % ("a", "1") + line % ("b", "2") + line % ("a", "3"))

    assert "3 jobs: fine" in bee("archive", "import", "jobs", "--dry-run").output
    assert "3 jobs taken in\n" == bee("archive", "import", "jobs", "--url", valkey_url).output
    words = ["--queue", "c", "--url", valkey_url]
    assert "3 jobs taken in\n" == bee("archive", "import", "jobs", *words).output

    async def ids(queue: str) -> list[str]:
        async with bee_core.connect(valkey_url) as store:
            return [one.id for one in (await store.scan(queue, bee_core.State.READY)).items]

    assert [["1", "3"], ["2"]] == [asyncio.run(ids(name)) for name in ("a", "b")]
    assert ["1", "2", "3"] == asyncio.run(ids("c"))


def test_a_large_archive_keeps_its_order(bee: Bee, valkey_url: str) -> None:
    line = '{"v":1,"queue":"q","id":"%04d","state":"archived","sent_at":1,"archived_at":2}\n'
    Path("jobs").write_text("".join(line % number for number in range(1200)))

    answer = bee("archive", "import", "jobs", "--url", valkey_url)

    assert "1200 jobs taken in\n" == answer.output
    out = bee("archive", "export", "q", "--all", "--url", valkey_url).output.splitlines()
    assert [f"{number:04}" for number in range(1200)] == [json.loads(one)["id"] for one in out]


@pytest.mark.parametrize(
    ("text", "words", "code", "says"),
    [
        ("nonsense", (), 2, "jobs, line 1: not a job of bee archive export"),
        ('{"v":1,"queue":"A B","id":"a","state":"ready"}', (), 2, "is not a queue name"),
        ('{"v":1,"queue":"q","id":"a","state":"ready"}', ("--queue", "A B"), 2, "not a queue name"),
        ('{"v":1,"queue":"q","id":"a","state":"leased"}', (), 2, "line 1: a was held, and may"),
        (
            '{"v":1,"queue":"q","id":"a","state":"ready","leased_at":1,"leased_until":2}',
            (),
            2,
            "line 1: a was held, and may",
        ),
        ('{"v":1,"queue":"q","id":"","state":"ready"}', (), 2, "is not a job id"),
        ('{"v":1,"queue":"q","id":"a","state":"ready"}', (), 3, "cannot reach"),
    ],
)
def test_what_is_not_taken_in(
    bee: Bee, text: str, words: tuple[str, ...], code: int, says: str
) -> None:
    Path("jobs").write_text(text)

    answer = bee("archive", "import", "jobs", *words, "--url", "redis://localhost:1")

    assert (code, "") == (answer.exit_code, answer.stdout)
    assert says in answer.stderr


def test_all_of_a_queue_that_nobody_knows_is_not_an_empty_export(
    run_bee: RunBee, store_url: str, tmp_path: Path
) -> None:
    (tmp_path / "jobs").write_text("of yesterday")

    answer = run_bee("archive", "export", "maill", "--all", "-o", "jobs", "--url", store_url)

    assert (1, "") == (answer.returncode, answer.stdout)
    assert "no queue 'maill' in this store" in answer.stderr
    assert "of yesterday" == (tmp_path / "jobs").read_text()
    assert ["jobs"] == [file.name for file in tmp_path.iterdir()]


def test_a_store_that_is_full_half_way_is_said_to_have_some(
    run_bee: RunBee, tmp_path: Path
) -> None:
    job = {"v": 1, "queue": "mail", "state": "ready", "sent_at": 1.0, "due_at": 1.0}
    lines = [json.dumps(job | {"id": str(n), "body": "x" * 3_000}) for n in range(2_000)]
    (tmp_path / "jobs").write_text("\n".join(lines))
    small = RedisServer(valkey_binary(), "--maxmemory", "4mb")
    try:
        answer = run_bee("archive", "import", "jobs", "--url", small.url)

        assert (3, "") == (answer.returncode, answer.stdout)
        assert " of 2000 jobs are there for certain: do it again" in answer.stderr
        assert "the server is out of memory" in answer.stderr
        small.ask("CONFIG", "SET", "maxmemory", "0")
        answer = run_bee("archive", "import", "jobs", "--url", small.url)
        assert "jobs taken in, " in answer.stdout
    finally:
        small.stop()
