"""`bee show`: all of a job, safely."""

from __future__ import annotations

import base64
import json
import subprocess

import bee_core as bee
from bee_core.broker import Store
from bee_core.message import Draft

from .conftest import RunBee, bee_command, bee_environment
from .support import Jobs, Mail, Pay, fail, send, use


def test_a_job_that_failed_with_its_traceback_and_its_past(run_bee: RunBee, store_url: str) -> None:
    fail(store_url, "mail", "x")

    ended = run_bee("show", "mail", "x", "--url", store_url)

    text = ended.stdout
    assert (0, "") == (ended.returncode, ended.stderr)
    assert text.startswith("x in mail: it was archived at ")
    assert "\nkind         mail\nstate        archived\n" in text
    assert "\ncounters     1 delivery, 1 error\n" in text
    assert '\n      "to": "ada",\n' in text
    assert "\nnote: failed\n  Traceback (most recent call last):\n" in text
    assert "\n  ConnectionError: host 10.0.0.1 refused\n  and more\n" in text
    assert text.rstrip().endswith("  archived")


def test_what_it_was_sent_with(run_bee: RunBee, store_url: str) -> None:
    async def prepare(store: Store) -> None:
        queue = bee.Queue(store, "mail", Jobs)
        policy = bee.Policy(timeout=5, on_error=bee.Repeat(3))
        headers = {"tenant": "blue"}
        await queue.send(Pay("ada"), id="p", key="ada", policy=policy, headers=headers, delay=60)
        await queue.group([Mail("a"), Mail("b")], then=Pay("all"), id="g")

    use(store_url, prepare)

    paid = run_bee("show", "mail", "p", "--url", store_url).stdout
    gathers = run_bee("show", "mail", "g", "--url", store_url).stdout
    child = run_bee("show", "mail", "g/1", "--url", store_url).stdout

    assert "\nkey          ada\n" in paid
    assert "\n  timeout       5s\n  on_error      repeat 3 times, then archive\n" in paid
    assert "\nheaders\n  tenant: blue\n" in paid
    assert "\nawaits       2 reports\n" in gathers
    assert "\nreports to   g\n" in child


def test_for_programs_it_is_one_object(run_bee: RunBee, store_url: str) -> None:
    fail(store_url, "mail", "x")

    shown = json.loads(run_bee("show", "mail", "x", "--json", "--url", store_url).stdout)

    assert ("mail", "x", "archived") == (shown["queue"], shown["id"], shown["state"])
    assert {"type": "mail", "to": "ada", "fails": "host 10.0.0.1 refused"} == shown["body"]["job"]
    assert None is shown["body64"]
    assert "Archived" == shown["why"]["kind"]
    assert shown["note"]["detail"].endswith("and more\n")
    assert 1 == len(shown["history"])


def test_bytes_that_are_no_json_are_shown_safely(run_bee: RunBee, store_url: str) -> None:
    body = b"\xff\x00\x1b[31m" + b"x" * 100_000
    use(store_url, lambda store: store.send("mail", [Draft("raw", body)]))

    text = run_bee("show", "mail", "raw", "--url", store_url).stdout
    shown = json.loads(run_bee("show", "mail", "raw", "--json", "--url", store_url).stdout)
    alone = subprocess.run(
        bee_command("show", "mail", "raw", "--body", "--url", store_url),
        capture_output=True,
        env=bee_environment(),
    )

    assert "\n  b'\\xff\\x00\\x1b[31mxxx" in text
    assert f"  ... {len(body)} bytes in all: --body shows them" in text
    assert "\x1b" not in text
    assert body == base64.b64decode(shown["body64"])
    assert (None, None) == (shown["body"], shown["kind"])
    assert body == alone.stdout


def test_a_body_that_is_json_cannot_move_the_cursor(run_bee: RunBee, valkey_url: str) -> None:
    body = '{"a": "\x9b2J\u202e"}'.encode()
    use(valkey_url, lambda store: store.send("mail", [Draft("raw", body)]))

    text = run_bee("show", "mail", "raw", "--url", valkey_url).stdout

    assert '\n    "a": "\\x9b2J\\u202e"\n' in text


def test_a_job_that_nobody_knows(run_bee: RunBee, store_url: str) -> None:
    send(store_url, "mail", "a")

    unknown = run_bee("show", "mail", "b", "--url", store_url)
    elsewhere = run_bee("show", "mial", "a", "--url", store_url)

    assert (1, "") == (unknown.returncode, unknown.stdout)
    assert "b in mail: the store knows nothing of it" in unknown.stderr
    assert (1, "") == (elsewhere.returncode, elsewhere.stdout)
    assert "no queue 'mial' in this store (do you mean mail?)" in elsewhere.stderr


def test_a_job_that_is_over_and_whose_result_is_kept(run_bee: RunBee, store_url: str) -> None:
    async def prepare(store: Store) -> None:
        queue = bee.Queue(store, "mail", Jobs)
        await queue.send(Pay("ada"), id="p")
        (lease,) = await store.lease("mail", limit=1, duration=60, holder="ann:1")
        end = bee.Settlement(
            lease.receipt, bee.Delete(), bee.Note("succeeded"), result=b'{"sum":7}', keep=600
        )
        await store.settle("mail", [end])

    use(store_url, prepare)

    text = run_bee("show", "mail", "p", "--url", store_url)
    shown = json.loads(run_bee("show", "mail", "p", "--json", "--url", store_url).stdout)

    assert 0 == text.returncode
    assert "p in mail: it is over: it has succeeded\n" in text.stdout
    assert '"sum": 7' in text.stdout
    assert {"sum": 7} == shown["result"]
