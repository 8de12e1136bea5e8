"""MODULE:HIVE: what cannot be found or loaded is said in one sentence, and is wrong use."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import bee_core as bee
from bee_core.cli.common.loading import load_hive
from bee_core.service.exits import Exit

from .support import Service

PROGRAMS = {
    "one": "import bee_core as bee\nhive = bee.Hive()\nagain = hive\nnumber = 5\n",
    "two": "import bee_core as bee\nfirst = bee.Hive()\nsecond = bee.Hive()\n",
    "blocking": "from bee_core import sync\nhive = sync.Hive()\nview = sync.of(hive.inner)\n",
    "none": "import bee_core as bee\nnumber = 5\n",
    "broken": "def work():\n    return 1 / 0\n\nwork()\n",
    "typo": "def (:\n",
    "lacks": "import no_such_library\n",
    "leaves": "raise SystemExit('bye')\n",
    "pack/__init__": "",
    "pack/jobs": "import bee_core as bee\nclass App:\n    hive = bee.Hive()\n",
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A place with programs; nothing of them stays loaded."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "pack").mkdir()
    for name, text in PROGRAMS.items():
        (tmp_path / f"{name}.py").write_text(text)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize(
    "target",
    [
        "one:hive",
        "one",
        "one:again",
        "two:second",
        "pack.jobs:App.hive",
        "blocking",
        "blocking:hive",
    ],
)
def test_a_hive_is_found(here: Path, target: str) -> None:
    assert isinstance(load_hive(target), bee.Hive)


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("nowhere:hive", "there is no module 'nowhere', neither installed nor in "),
        ("pack.nowhere:hive", "there is no module 'pack.nowhere', neither"),
        ("nowhere.jobs:hive", "there is no module 'nowhere', neither"),
        ("one.py:hive", "there is no module 'one.py', neither installed nor in "),
        ("./one.py", "'./one.py' is not the name of a module: say MODULE:HIVE"),
        (":hive", "'' is not the name of a module"),
        ("one:nothing", "one has no 'nothing'; it has one:hive or one:again"),
        ("one:number", "one:number is no Hive but of type int; it has one:hive or one:again"),
        ("two", "two has several hives: say which, two:first or two:second"),
        ("none", "there is no Hive in none: make one"),
        ("none:hive", "none has no 'hive'; it has no Hive at all"),
        ("broken", "broken cannot be imported: ZeroDivisionError"),
        ("typo", "typo cannot be imported: SyntaxError"),
        ("lacks", "lacks cannot be imported: ModuleNotFoundError"),
        ("leaves", "leaves cannot be imported: SystemExit"),
    ],
)
def test_what_is_wrong_is_said(here: Path, target: str, says: str) -> None:
    with pytest.raises(click.ClickException) as caught:
        load_hive(target)

    assert caught.value.message.startswith(says)
    assert Exit.USAGE == caught.value.exit_code


@pytest.mark.parametrize(
    ("target", "last"),
    [
        ("broken", "ZeroDivisionError: division by zero"),
        ("lacks", "ModuleNotFoundError: No module named 'no_such_library'"),
        ("leaves", "SystemExit: bye"),
        ("typo", "SyntaxError: invalid syntax"),
    ],
)
def test_an_error_of_the_program_is_shown_with_its_own_lines_only(
    here: Path, capsys: pytest.CaptureFixture[str], target: str, last: str
) -> None:
    with pytest.raises(click.ClickException):
        load_hive(target)

    shown = capsys.readouterr().err
    assert last == shown.splitlines()[-1]
    assert str(here / f"{target}.py") in shown
    assert "importlib" not in shown
    assert "loading.py" not in shown


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("shop:hive", "--queues", "nothing"), "this hive has no queue 'nothing'; it has: work"),
        (("shop:hive", "--queues", ""), "--queues names no queue: leave it out to work on all"),
        (("shop:hive", "--queues", " ,"), "--queues names no queue: leave it out to work on all"),
        (("shop:hive", "--url", "nonsense://x"), "no broker for nonsense://x; known schemes: "),
        (("shop:hive", "--events", "no/such/place"), "--events no/such/place cannot be written"),
        (("shop:hive", "--heartbeat-file", "no/place"), "--heartbeat-file no/place: there is no"),
        (("shop:hive", "--concurrency", "0"), "Invalid value for '--concurrency'"),
        (("shop:hive", "--grace", "soon"), "'soon' is not a duration like 25s, 5m or 1h"),
        (("shop:hive", "--max-rss", "big"), "'big' is not a size like 512M or 2G"),
        (("idle:hive",), "this hive has no queue with a handler"),
    ],
)
def test_wrong_use_ends_with_2_and_without_a_traceback(
    service: Service, words: tuple[str, ...], says: str
) -> None:
    idle = "import bee_core as bee\nhive = bee.Hive()\nhive.queue('idle', str)\n"
    (service.directory / "idle.py").write_text(idle)

    answer = service.run("worker", *words, QUEUE="work")

    assert Exit.USAGE == answer.returncode
    assert says in answer.stderr
    assert "Traceback" not in answer.stderr


def test_only_the_queues_that_are_named_are_worked_on(service: Service) -> None:
    several = """
import bee_core as bee
hive = bee.Hive()
for name in ("a", "b", "c"):
    hive.queue(name, str).handler(lambda job: None)
"""
    (service.directory / "several.py").write_text(several)

    answer = service.run("worker", "several", "--queues", "a, c", "--until-empty", "--events", "x")

    assert 0 == answer.returncode
    started = [line for line in answer.stderr.splitlines() if "worker started" in line]
    assert ["queue=a", "queue=c"] == sorted(line.split()[-2] for line in started)
