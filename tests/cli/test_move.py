"""`bee move`, in a process of its own, from one real server to another."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, TypeVar

import pytest

import bee_core
from bee_core.broker import Store
from bee_core.message import Draft
from bee_core.stored import QueueStats
from tests.core.moving import Filled, Seen, differences, fill, look
from tests.servers import PgServer, RedisServer, free_port, valkey_binary

from .conftest import Bee, RunBee, bee_command, bee_environment
from .support import Terminal

T = TypeVar("T")
QUEUE = "mail"
Urls = tuple[str, str]


def ask(url: str, question: Callable[[Store], Awaitable[T]]) -> T:
    """What a store answers."""

    async def go() -> T:
        async with bee_core.connect(url) as store:
            return await question(store)

    return asyncio.run(go())


def stats(url: str) -> QueueStats:
    return ask(url, lambda store: store.stats(QUEUE))


def send(url: str, *ids: str, body: bytes = b"{}") -> None:
    ask(url, lambda store: store.send(QUEUE, [Draft(id, body) for id in ids]))


def hold_one(url: str) -> None:
    """Somebody runs the first job, and goes on doing so."""
    ask(url, lambda store: store.lease(QUEUE, limit=1, duration=600, holder="ann:1"))


@pytest.fixture(params=["to pg", "to valkey"])
def urls(request: pytest.FixtureRequest, valkey_url: str, pg_url: str) -> Urls:
    """Source and destination."""
    return (valkey_url, pg_url) if request.param == "to pg" else (pg_url, valkey_url)


def test_everything_is_moved_and_a_table_says_so(run_bee: RunBee, urls: Urls) -> None:
    source, destination = urls

    async def prepare(store: Store) -> tuple[Filled, Seen]:
        return await fill(store, QUEUE, 100, asyncio.sleep), await look(store, QUEUE)

    filled, before = ask(source, prepare)
    total = str(sum(before.counts.values()))

    answer = run_bee("move", source, destination, "--batch", "30")

    assert 0 == answer.returncode, answer.stderr
    head, row = answer.stdout.splitlines()
    assert ["queue", "found", "moved", "already", "there", "left"] == head.split()
    assert [QUEUE, total, total, "0", "0"] == row.split()
    assert [] == differences(before, ask(destination, lambda s: look(s, QUEUE)), filled)
    left = stats(source)
    assert (0, {}, False) == (left.live, left.archived, left.paused)


def test_a_dry_run_says_what_there_is_and_changes_nothing(run_bee: RunBee, urls: Urls) -> None:
    source, destination = urls
    send(source, "a", "b")
    hold_one(source)
    before = stats(source)

    answer = run_bee("move", source, destination, "--dry-run")
    told = run_bee("move", source, destination, "--dry-run", "--json")

    assert (0, "mail: 1 ready, 1 leased\n") == (answer.returncode, answer.stdout)
    assert "found" == json.loads(told.stdout)["event"]
    assert (before.live, False) == (stats(source).live, stats(source).paused)
    assert 0 == stats(destination).live


def test_what_runs_stays_and_is_moved_by_the_next_run(run_bee: RunBee, urls: Urls) -> None:
    source, destination = urls
    send(source, "a", "b")
    hold_one(source)

    first = run_bee("move", source, destination, "--wait", "200ms")

    assert 1 == first.returncode
    assert "mail: 1 still running" in first.stdout
    assert "mail is paused at the source: run this again, or: bee resume mail" in first.stdout
    assert (1, 1, True) == (stats(destination).live, stats(source).live, stats(source).paused)

    ask(source, lambda store: store.cancel(QUEUE, ["a"], to=bee_core.Archive()))
    second = run_bee("move", source, destination, "--wait", "0")

    assert 0 == second.returncode
    assert "mail was paused at the source before, and still is: bee resume" in second.stdout
    assert {"cancelled": 1} == stats(destination).archived


def test_a_conflict_is_told_by_its_id(run_bee: RunBee, urls: Urls) -> None:
    source, destination = urls
    send(source, "a", "b")
    send(destination, "b", body=b"another")

    answer = run_bee("move", source, destination)

    assert 1 == answer.returncode
    assert "mail: 1 in conflict: another job of that id is at the destination: b" in answer.stdout
    assert (1, 2) == (stats(source).live, stats(destination).live)


def test_for_programs_every_event_is_a_line_of_json(run_bee: RunBee, urls: Urls) -> None:
    send(urls[0], "a", "b")

    answer = run_bee("move", *urls, "--json")

    events = [json.loads(line) for line in answer.stdout.splitlines()]
    assert "" == answer.stderr
    kinds = [event["event"] for event in events]
    assert ["found", "begun", "progress", "moved", "end"] == kinds
    assert {"event": "end", "complete": True, "moved": 2, "left": 0} == events[-1]


def test_only_the_named_queues_are_moved(run_bee: RunBee, urls: Urls) -> None:
    source, destination = urls
    for queue in ("a", "b", "c"):
        ask(source, lambda store, queue=queue: store.send(queue, [Draft("x", b"")]))  # type: ignore[misc]

    answer = run_bee("move", source, destination, "--queues", " a,c,")

    assert 0 == answer.returncode, answer.stderr
    assert ["a", "c"] == list(ask(destination, lambda store: store.queues()))
    assert ["b"] == list(ask(source, lambda store: store.queues()))


def test_a_store_that_holds_nothing_has_nothing_to_move(run_bee: RunBee, urls: Urls) -> None:
    answer = run_bee("move", *urls)

    assert (0, "") == (answer.returncode, answer.stdout)
    assert "nothing to move: the source holds no queue" in answer.stderr


# What cannot be done.


def test_two_urls_of_one_store_are_found_out(run_bee: RunBee, valkey_url: str, pg_url: str) -> None:
    for url, other in ((valkey_url, "&db=0"), (pg_url, "&application_name=other")):
        send(url, "a")

        answer = run_bee("move", url, f"{url}{other}")

        assert 2 == answer.returncode, answer.stderr
        assert "are the same store" in answer.stderr
        assert not stats(url).paused


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("memory://", "redis://localhost"), "memory:// lives inside one process"),
        (("redis://localhost", "memory://shop"), "memory:// lives inside one process"),
        (("redis://localhost", "redis://localhost"), "both URLs are the same"),
        (("nosuch://a", "redis://localhost"), "known schemes: "),
        (("redis://localhost", "nosuch://a"), "known schemes: "),
        (("redis://a", "redis://b", "--queues", ","), "--queues names no queue"),
        (("redis://a", "redis://b", "--batch", "0"), "--batch"),
        (("redis://a", "redis://b", "--wait", "soon"), "'soon' is not a duration"),
        (("redis://a",), "Missing argument 'DST_URL'"),
    ],
)
def test_what_cannot_be_moved_is_wrong_use(bee: Bee, words: Sequence[str], problem: str) -> None:
    answer = bee("move", *words)

    assert 2 == answer.exit_code
    assert problem in answer.output


def test_an_unknown_queue_is_wrong_use_and_the_known_ones_are_listed(
    run_bee: RunBee, urls: Urls
) -> None:
    send(urls[0], "a")

    answer = run_bee("move", *urls, "--queues", "male")

    assert 2 == answer.returncode
    assert "Error: there is no queue 'male' at the source; there are: mail\n" == answer.stderr


def test_a_server_that_is_not_there_is_one_sentence_that_says_which(
    run_bee: RunBee, store_url: str
) -> None:
    send(store_url, "a")
    nowhere = f"redis://:secret@localhost:{free_port()}"

    source = run_bee("move", nowhere, store_url)
    destination = run_bee("move", store_url, nowhere)

    dry_run = run_bee("move", store_url, nowhere, "--dry-run")

    assert (3, 3, 3) == (source.returncode, destination.returncode, dry_run.returncode)
    assert source.stderr.startswith("Error: the source: ")
    assert "Error: the destination: " in destination.stderr
    assert not any(word in source.stderr + destination.stderr for word in ("secret", "Traceback"))
    assert not stats(store_url).paused


def test_a_destination_without_a_schema_is_told_what_to_run(
    run_bee: RunBee, valkey_url: str, pg: PgServer
) -> None:
    send(valkey_url, "a")

    answer = run_bee("move", valkey_url, pg.database())

    assert 3 == answer.returncode
    assert "bee db apply" in answer.stderr
    assert not stats(valkey_url).paused


@pytest.fixture
def small() -> Iterator[RedisServer]:
    """A server with hardly any memory left."""
    server = RedisServer(valkey_binary(), "--maxmemory", "4mb")
    yield server
    server.stop()


def test_a_destination_that_is_full_loses_nothing(
    run_bee: RunBee, pg_url: str, small: RedisServer
) -> None:
    send(pg_url, *(str(n) for n in range(800)), body=b"x" * 10_000)

    answer = run_bee("move", pg_url, small.url, "--batch", "20")

    assert 3 == answer.returncode
    assert "the destination: the server is out of memory" in answer.stderr
    assert " of 800 of mail are moved, the others are where they were" in answer.stderr
    assert "bee resume mail --url postgresql://" in answer.stderr
    assert 800 == stats(pg_url).live + stats(small.url).live
    small.ask("CONFIG", "SET", "maxmemory", "0")
    assert 0 == run_bee("move", pg_url, small.url).returncode
    assert 800 == stats(small.url).live


# What goes on outside.


def start(*words: str, **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(bee_command("move", *words), env=bee_environment(), **options)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_who_ends_it_leaves_it_paused_and_is_told_so(
    urls: Urls, number: signal.Signals, code: int
) -> None:
    source, destination = urls
    send(source, "a", "b")
    hold_one(source)

    process = start(source, destination, "--wait", "5m", stderr=subprocess.PIPE)
    assert process.stderr is not None
    while b"waiting up to" not in process.stderr.readline():
        pass
    process.send_signal(number)
    _, said = process.communicate(timeout=30)

    assert code == process.returncode
    assert b"Interrupted. 0 of 2 of mail are moved" in said
    assert b"Traceback" not in said
    assert stats(source).paused


def test_it_goes_on_though_nobody_reads_what_it_says(urls: Urls) -> None:
    source, destination = urls
    send(source, *(str(n) for n in range(100)))

    process = start(
        *(source, destination, "--json", "--batch", "2"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr as errors:
        said = errors.read()

    assert (0, b"") == (process.wait(30), said)
    assert (0, 100) == (stats(source).live, stats(destination).live)


def test_in_a_terminal_there_is_a_bar(urls: Urls) -> None:
    source, destination = urls
    send(source, *(str(n) for n in range(20)))

    with closing(Terminal(["move", source, destination, "--batch", "5"])) as terminal:
        assert 0 == terminal.end()

    assert "[##############################] 100%  mail: 20 of 20" in terminal.shown


def test_without_a_terminal_nothing_is_redrawn(run_bee: RunBee, urls: Urls) -> None:
    send(urls[0], "a")

    answer = run_bee("move", *urls)

    assert not {"\r", "\x1b"} & set(answer.stdout + answer.stderr)
    assert "mail: 1 ready\n" == answer.stderr
