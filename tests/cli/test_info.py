"""`bee info`: counts, reasons, who works."""

from __future__ import annotations

import json

from bee_core.broker import Store
from bee_core.presence import Presence, written

from .conftest import RunBee
from .support import fail, lease, send, use


def test_an_empty_store_has_no_queues(run_bee: RunBee, store_url: str) -> None:
    ended = run_bee("info", "--url", store_url)

    assert (0, "no queues\n", "") == (ended.returncode, ended.stdout, ended.stderr)
    assert "" == run_bee("info", "--json", "--url", store_url).stdout


def test_every_queue_is_a_line_and_so_is_who_works(run_bee: RunBee, store_url: str) -> None:
    fail(store_url, "mail", "x", "y")
    send(store_url, "mail", "a", "b")
    send(store_url, "mail", "later", delay=3600)
    lease(store_url, "mail")
    send(store_url, "films", "f")

    async def prepare(store: Store) -> None:
        about = Presence(host="ann", pid=7, version="1.2", concurrency=5, kinds=("mail", "pay"))
        await store.announce("mail", "ann:1", about=written(about), duration=60)
        await store.pause("films")

    use(store_url, prepare)

    ended = run_bee("info", "--url", store_url)

    head, films, mail, empty, workers, ann = ended.stdout.splitlines()
    assert 0 == ended.returncode
    assert "queue ready delayed running blocked archived oldest workers paused" in _squeezed(head)
    assert _squeezed(films).startswith("films 1 0 0 0 0 ")
    assert _squeezed(films).endswith(" 0 paused -")
    assert _squeezed(mail).startswith("mail 1 1 1 0 2 ")
    assert _squeezed(mail).endswith(" 1 - 2 failed")
    assert "" == empty
    assert "queue worker leases since what it says" == _squeezed(workers)
    assert _squeezed(ann).startswith("mail ann:1 1 ")
    assert ann.endswith("pid 7 on ann, bee 1.2, 5 at once: mail, pay")


def test_for_programs_each_queue_is_an_object(run_bee: RunBee, store_url: str) -> None:
    fail(store_url, "mail", "x")
    send(store_url, "mail", "a")
    lease(store_url, "mail")
    send(store_url, "films", "f")

    answers = run_bee("info", "--json", env={"BEE_URL": store_url}).stdout.splitlines()

    films, mail = map(json.loads, answers)
    assert ("films", 1, 0, []) == (
        films["queue"],
        films["ready"],
        films["running"],
        films["workers"],
    )
    assert ("mail", 0, 1, 1) == (mail["queue"], mail["ready"], mail["running"], mail["archived"])
    assert {"failed": 1} == mail["archived_because"]
    assert (2, 1, False) == (mail["created"], mail["ended"], mail["paused"])
    (worker,) = mail["workers"]
    assert ("ann:1", 1, "") == (worker["name"], worker["leases"], worker["about"])


def test_only_the_queues_that_were_named(run_bee: RunBee, store_url: str) -> None:
    send(store_url, "mail", "a")
    send(store_url, "films", "f")

    ended = run_bee("info", "films", "--url", store_url)

    assert "films" == ended.stdout.splitlines()[1].split()[0]
    assert "mail" not in ended.stdout
    assert "nobody works on it" == ended.stdout.splitlines()[-1]


def test_a_queue_that_is_empty_now_is_still_known(run_bee: RunBee, store_url: str) -> None:
    send(store_url, "mail", "a")
    use(store_url, lambda store: store.purge("mail"))

    ended = run_bee("info", "mail", "--url", store_url)

    assert 0 == ended.returncode
    assert _squeezed(ended.stdout.splitlines()[1]).startswith("mail 0 0 0 0 0 - 0")


def test_what_a_worker_says_cannot_forge_a_line(run_bee: RunBee, valkey_url: str) -> None:
    send(valkey_url, "mail", "a")
    said = "x\n\x1b[2Jmail  all is well"
    use(valkey_url, lambda store: store.announce("mail", "b", about=said, duration=60))

    shown = run_bee("info", "--url", valkey_url).stdout

    assert "x\\n\\x1b[2Jmail  all is well" in shown


def _squeezed(line: str) -> str:
    return " ".join(line.split())
