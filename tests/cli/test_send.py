"""`bee send`: what is sent, what is refused, and what is said of it."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

import bee_core
from bee_core.stored import State, Stored
from tests.servers import free_port

from .conftest import Bee, RunBee, bee_command, bee_environment
from .programs import SHOP, program
from .support import Terminal

ADA = '{"type": "send_email", "to": "ada"}'
FILM = '{"path": "x.png"}'


def stored(url: str, queue: str) -> list[Stored]:
    """All that waits there."""

    async def look() -> list[Stored]:
        async with bee_core.connect(url) as store:
            pages = [await store.scan(queue, state) for state in (State.READY, State.DELAYED)]
            return [one for page in pages for one in page.items]

    return asyncio.run(look())


def test_a_job_is_sent_and_its_id_is_printed(run_bee: RunBee, store_url: str) -> None:
    answer = run_bee("send", program(), "mail", ADA, "--url", store_url)

    (job,) = stored(store_url, "mail")
    assert (0, f"{job.id}\n", "") == (answer.returncode, answer.stdout, answer.stderr)
    assert b'{"v":1,"job":{"type":"send_email","to":"ada","subject":""}}' == job.body


def test_options_become_what_they_say(run_bee: RunBee, store_url: str) -> None:
    words = ["--id", "a", "--delay", "5m", "--key", "ada", "--priority", "3", "--json"]
    answer = run_bee("send", program(), "mail", ADA, *words, "--url", store_url)

    (job,) = stored(store_url, "mail")
    assert {"id": "a", "sent": "created"} == json.loads(answer.stdout)
    assert ("a", "ada", 3) == (job.id, job.key, job.priority)
    assert 290 < job.due_at - job.sent_at < 310


@pytest.mark.parametrize(
    ("word", "code", "sent"), [("keep", 0, "kept"), ("update", 0, "updated"), ("reject", 1, None)]
)
def test_an_id_that_is_taken(
    bee: Bee, valkey_url: str, word: str, code: int, sent: str | None
) -> None:
    words = ["send", program(), "mail", ADA, "--id", "a", "--url", valkey_url, "--json"]
    assert 0 == bee(*words).exit_code

    again = bee(*words, "--if-taken", word)

    assert code == again.exit_code
    if sent is None:
        assert "Error: queue 'mail' already holds a\n" == again.stderr
    else:
        assert {"id": "a", "sent": sent} == json.loads(again.stdout)


def test_a_file_is_sent_line_by_line(run_bee: RunBee, store_url: str) -> None:
    lines = [
        '{"path": "a"}',
        "",
        '{"type": "resize.v2", "path": "b", "width": 3}',
        '{"job": {"path": "c"}, "id": "c", "delay": "1h", "key": "k", "priority": 2}',
        '{"job": {"path": "d"}, "id": "c", "if_taken": "update", "headers": {"who": "me"}}',
    ]
    Path("jobs").write_text("\n".join(lines))

    answer = run_bee("send", program(), "films", "--file", "jobs", "--url", store_url)

    jobs = {one.id: one for one in stored(store_url, "films")}
    assert 0 == answer.returncode, answer.stderr
    assert [*jobs, "c"] == answer.stdout.split()
    assert (2, b'{"v":1,"job":{"type":"resize.v2","path":"d","width":200}}') == (
        len(jobs) - 1,
        jobs["c"].body,
    )
    assert {"who": "me"} == jobs["c"].headers


def test_a_file_as_some_editors_write_it(bee: Bee) -> None:
    Path("jobs").write_bytes(b"\xef\xbb\xbf" + f"{FILM}\r\n{FILM}\r\n\r\n".encode())

    answer = bee("send", program(), "films", "--file", "jobs", "--dry-run")

    assert "2 jobs: fine, nothing was sent\n" == answer.output


def test_of_a_large_file_of_nonsense_a_little_is_shown(bee: Bee) -> None:
    Path("jobs").write_text("nonsense\n" * 1000)

    said = bee("send", program(), "films", "--file", "jobs", "--dry-run").stderr.splitlines()

    assert 12 == len(said)
    assert ["and 990 more", "Error: 1000 of 1000 jobs are bad, so none was sent"] == said[-2:]


def test_of_a_file_with_a_bad_line_nothing_is_sent(run_bee: RunBee, store_url: str) -> None:
    Path("jobs").write_text('{"path": "a"}\n{"path": 3}\n\n{"pth": "x"}\n')

    answer = run_bee("send", program(), "films", "--file", "jobs", "--url", store_url)

    assert (2, "") == (answer.returncode, answer.stdout)
    assert [
        "line 2: field path: Expected `str`, got `int`",
        "line 4: Object missing required field `path`",
        "Error: 2 of 3 jobs are bad, so none was sent",
    ] == answer.stderr.splitlines()
    assert [] == stored(store_url, "films")


def test_standard_input_is_sent_up_to_the_first_bad_line(run_bee: RunBee, store_url: str) -> None:
    lines = '{"path": "a"}\n{"path": "b"}\nnonsense\n{"path": "c"}\n'

    answer = run_bee("send", program(), "films", "-", "--url", store_url, input=lines)

    ids = [one.id for one in stored(store_url, "films")]
    assert (1, ids) == (answer.returncode, answer.stdout.split())
    assert 2 == len(ids)
    assert answer.stderr.startswith("Error: line 3: JSON is malformed")
    assert answer.stderr.endswith(". 2 jobs were sent\n")


def test_an_id_from_a_field_makes_it_harmless_to_send_again(bee: Bee, valkey_url: str) -> None:
    Path("jobs").write_text('{"path": "a"}\n{"path": "b"}\n')
    words = ["send", program(), "films", "--file", "jobs", "--id-from", "path"]

    for _ in range(2):
        assert "a\nb\n" == bee(*words, "--url", valkey_url).stdout

    assert {"a", "b"} == {one.id for one in stored(valkey_url, "films")}


def test_a_dry_run_checks_and_sends_nothing_and_needs_no_broker(bee: Bee) -> None:
    Path("jobs").write_text(f"{FILM}\n" * 3)

    assert (
        "3 jobs: fine, nothing was sent\n"
        == bee("send", program(), "films", "--file", "jobs", "--dry-run").output
    )
    assert (
        "1 job: fine, nothing was sent\n" == bee("send", "shop", "films", FILM, "--dry-run").output
    )
    assert 2 == bee("send", "shop", "films", '{"path": 1}', "--dry-run").exit_code


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("mail", '{"type": "send_email", "to": 3}'), "field to: Expected `str`, got `int`"),
        (
            ("mail", '{"type": "nope"}'),
            "unknown job kind 'nope' (known tags: resize.v2, send_email)",
        ),
        (("mail", '{"to": "ada"}'), 'say which kind, {"type": ...}; known: resize.v2, send_email'),
        (("films", '{"path": "x", "wdth": 3}'), "unknown field 'wdth'; known: type, path, width"),
        (
            ("films", '{"job": {"path": "x"}, "idd": "a"}'),
            "unknown field `idd` beside the job; known",
        ),
        (("films", '{"job": {"path": "x"}, "delay": "soon"}'), "'soon' is not a duration"),
        (("films", "{bad"), "JSON is malformed"),
        (("films", '{"path": "\\ud800"}'), "Error: "),
        (("films", "[1]"), "Expected `object`, got `array`"),
        (("films", FILM, "--priority", "99"), "priority must be a whole number"),
        (("films", FILM, "--id", ""), "is not a job id"),
        (("films", FILM, "--delay", "x"), "is not a duration"),
        (("films", FILM, "--id-from", "width"), "field 'width' is to be the id, but is None"),
        (("films", "-", "--id", "a"), "--id is for one job"),
        (("films", FILM, "--file", "shop.py"), "not both"),
        (("films",), "give a job"),
        (("films", "path"), "'path' is no job"),
        (("films", "--file", "nope"), "does not exist"),
        ((FILM,), "say which queue: this hive has mail, films"),
        (("nope", FILM), "this hive has no queue 'nope'; it has: mail, films"),
        (("films", FILM, "--url", "memory://"), "memory:// lives inside one process"),
        (("films", FILM, "--url", "nosuch://"), "nosuch"),
    ],
)
def test_what_cannot_be_sent_is_wrong_use(bee: Bee, words: tuple[str, ...], says: str) -> None:
    given = () if "--url" in words else ("--url", f"redis://localhost:{free_port()}")
    answer = bee("send", program(), *words, *given)

    assert 2 == answer.exit_code, answer.output
    assert says in answer.stderr
    assert "" == answer.stdout


def test_a_module_that_is_not_there(run_bee: RunBee) -> None:
    answer = run_bee("send", "nope", "mail", ADA)

    assert 2 == answer.returncode
    assert "there is no module 'nope'" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_file_instead_of_a_module_is_understood(run_bee: RunBee) -> None:
    Path("empty.py").write_text("")

    answer = run_bee("send", "empty.py", "mail", ADA)

    assert 2 == answer.returncode
    assert "(do you mean empty?)" in answer.stderr


def test_what_was_there_already_is_said(run_bee: RunBee, valkey_url: str) -> None:
    words = ("send", program(), "mail", ADA, "--id", "a", "--url", valkey_url)
    first, second = run_bee(*words), run_bee(*words)

    assert ("a\n", "") == (first.stdout, first.stderr)
    assert "a\n" == second.stdout
    assert "1 of 1 waited already under that id, and stayed as before\n" == second.stderr


def test_a_hive_without_a_url_is_in_memory_and_refused(run_bee: RunBee) -> None:
    answer = run_bee("send", program(), "mail", ADA)

    assert 2 == answer.returncode
    assert "memory:// lives inside one process" in answer.stderr


@pytest.mark.parametrize("words", [(FILM,), ("--file", "jobs"), ("-",)])
def test_a_server_that_is_not_there(run_bee: RunBee, words: tuple[str, ...]) -> None:
    Path("jobs").write_text(f"{FILM}\n")
    url = f"redis://:s3cr3t@localhost:{free_port()}"

    answer = run_bee("send", program(), "films", *words, "--url", url, input=f"{FILM}\n")

    assert (3, "") == (answer.returncode, answer.stdout)
    assert "s3cr3t" not in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_database_without_the_schema(run_bee: RunBee, pg: object) -> None:
    url = pg.database()  # type: ignore[attr-defined]

    answer = run_bee("send", program(), "films", FILM, "--url", url)

    assert 3 == answer.returncode
    assert "bee db apply" in answer.stderr


def test_a_queue_with_a_codec_of_its_own_takes_no_json(bee: Bee) -> None:
    program(
        SHOP
        + """
class Mine:
    def encode(self, job): ...
    def decode(self, body): ...

mine = hive.queue("mine", Resize, codec=Mine())
"""
    )

    answer = bee("send", "shop", "mine", FILM, "--dry-run")

    assert 2 == answer.exit_code
    assert "has a codec of its own, Mine" in answer.stderr


def test_lines_of_a_pipe_are_not_kept_waiting(valkey_url: str) -> None:
    words = bee_command("send", program(), "films", "-", "--url", valkey_url)
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, env=bee_environment()) as sender:
        assert sender.stdin is not None
        assert sender.stdout is not None
        for line in (b'{"path": "a"}\n{"pa', b'th": "b"}\n'):
            sender.stdin.write(line)
            sender.stdin.flush()
            assert sender.stdout.readline().strip()

        assert 2 == len(stored(valkey_url, "films"))
        sender.stdin.close()
        assert 0 == sender.wait(20)


def test_if_nobody_reads_the_ids_all_is_sent_nevertheless(valkey_url: str) -> None:
    Path("jobs").write_text(f"{FILM}\n" * 5_000)
    words = bee_command("send", program(), "films", "--file", "jobs", "--url", valkey_url)
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=bee_environment()
    ) as sender:
        assert sender.stdout is not None
        assert sender.stderr is not None
        sender.stdout.readline()
        sender.stdout.close()
        assert b"" == sender.stderr.read()
        assert 0 == sender.wait(60)

    async def count() -> int:
        async with bee_core.connect(valkey_url) as store:
            return (await store.stats("films")).ready

    assert 5_000 == asyncio.run(count())


def test_interrupted_it_says_how_far_it_has_come(valkey_url: str) -> None:
    words = bee_command("send", program(), "films", "-", "--url", valkey_url)
    pipe = subprocess.PIPE
    with subprocess.Popen(
        words, stdin=pipe, stdout=pipe, stderr=pipe, env=bee_environment()
    ) as sender:
        assert sender.stdin is not None
        assert sender.stdout is not None
        assert sender.stderr is not None
        sender.stdin.write(f"{FILM}\n".encode())
        sender.stdin.flush()
        sender.stdout.readline()
        sender.send_signal(signal.SIGINT)
        assert b"Error: interrupted. 1 job was sent for certain" in sender.stderr.read()
        assert 1 == sender.wait(20)


def test_in_a_terminal_there_is_a_bar_instead_of_ids(valkey_url: str) -> None:
    Path("jobs").write_text(f"{FILM}\n" * 2_000)
    words = ["send", program(), "films", "--file", "jobs", "--url", valkey_url]

    with closing(Terminal(words)) as terminal:
        assert 0 == terminal.end()

    assert "[##############################] 100%  2,000 sent" in terminal.shown
    assert terminal.shown.endswith("2000 jobs: sent to films\r\n")
