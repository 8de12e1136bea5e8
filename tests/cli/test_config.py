"""`bee config`, `--config` and what `bee worker` takes from elsewhere."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click
import msgspec
import pytest

from bee_core.cli.common.configured import Configured
from bee_core.cli.worker import worker
from bee_core.config import WorkerSettings, known_variables

from .conftest import Bee, RunBee

OPTIONS = [option for option in worker.params if isinstance(option, Configured)]


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in known_variables():
        monkeypatch.delenv(name, raising=False)


def settings(bee: Bee, *words: str) -> dict[str, tuple[object, str]]:
    answer = bee(*words, "config", "--json")
    assert 0 == answer.exit_code, answer.output
    found = [json.loads(line) for line in answer.stdout.splitlines()]
    return {one["name"]: (one["value"], one["source"]) for one in found}


def test_the_settings_of_a_worker_are_its_options() -> None:
    assert list(WorkerSettings.__struct_fields__) == [option.name for option in OPTIONS]
    of_the_line = {"supervised", "target"}
    assert of_the_line == {option.name for option in worker.params if option not in OPTIONS}


def test_every_setting_is_shown_with_its_source(
    bee: Bee, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = 'url = "redis://:hunter2@h"\n[worker]\nprocesses = 4\ngrace = "1m"\nlog = "json"\n'
    (tmp_path / "bee.toml").write_text(text)
    monkeypatch.setenv("BEE_WORKER_PROCESSES", "2")
    monkeypatch.setenv("BEE_HEARTBEAT_FILE", "beat")

    found = settings(bee)

    assert ["url", *(f"worker.{option.name}" for option in OPTIONS)] == list(found)
    assert ("redis://:***@h", "bee.toml") == found["url"]
    assert (2, "BEE_WORKER_PROCESSES") == found["worker.processes"]
    assert (60.0, "bee.toml") == found["worker.grace"]
    assert ("json", "bee.toml") == found["worker.log"]
    assert ("beat", "BEE_HEARTBEAT_FILE") == found["worker.heartbeat_file"]
    assert (None, "default") == found["worker.concurrency"]
    assert (False, "default") == found["worker.until_empty"]


def test_for_people_it_is_a_table(bee: Bee) -> None:
    answer = bee("config", "--url", "redis://ada:hunter2@h")

    assert ["url", "redis://ada:***@h", "argument"] == answer.stdout.splitlines()[0].split()
    assert 1 + len(OPTIONS) == len(answer.stdout.splitlines())


VALUES = {
    "url": ("redis://h", "redis://h"),
    "queues": ("a,b", "a,b"),
    "concurrency": (3, 3),
    "processes": (3, 3),
    "until_empty": (True, True),
    "grace": ("2m", 120.0),
    "max_jobs": (3, 3),
    "max_rss": ("1K", 1024),
    "heartbeat_file": ("f", "f"),
    "events": ("f", "f"),
    "metrics": ("127.0.0.1:9", "127.0.0.1:9"),
    "reload": (True, True),
    "loop": ("uvloop", "uvloop"),
    "log": ("json", "json"),
    "log_level": ("debug", "debug"),
}


@pytest.mark.parametrize("name", WorkerSettings.__struct_fields__)
def test_an_option_is_taken_from_the_file_and_before_that_from_its_variable(
    bee: Bee, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    given, expected = VALUES[name]
    written = msgspec.json.encode(given).decode()  # of such values TOML has the same idea
    (tmp_path / "other.toml").write_text(f"worker.{name} = {written}\n")
    variable = f"BEE_WORKER_{name.upper()}"

    assert (expected, "other.toml") == settings(bee, "--config", "other.toml")[f"worker.{name}"]

    monkeypatch.setenv(variable, str(given))
    assert (expected, variable) == settings(bee)[f"worker.{name}"]


def test_a_flag_of_the_file_can_be_taken_back(tmp_path: Path) -> None:
    (tmp_path / "bee.toml").write_text("[worker]\nuntil_empty = true\nreload = true\n")

    with worker.make_context("worker", ["x", "--no-until-empty", "--no-reload"]) as context:
        assert (False, False) == (context.params["until_empty"], context.params["reload"])


@pytest.mark.parametrize(
    ("variables", "text", "says"),
    [
        ({"BEE_WORKER_CONCURRENCY": "x"}, "", "Invalid value for BEE_WORKER_CONCURRENCY: 'x'"),
        ({"BEE_WORKER_CONCURRENCY": "0"}, "", "Invalid value for BEE_WORKER_CONCURRENCY: 0 is"),
        ({"BEE_WORKER_UNTIL_EMPTY": "maybe"}, "", "for BEE_WORKER_UNTIL_EMPTY: 'maybe' is not"),
        ({"BEE_WORKER_LOOP": "fast"}, "", "BEE_WORKER_LOOP: 'fast' is not one of 'asyncio', 'uv"),
        ({}, "worker.grace = 'soon'", "grace in [worker] of bee.toml: 'soon' is not a duration"),
        ({}, "worker.processes = 0", "processes in [worker] of bee.toml: 0 is not in the range"),
        ({}, "worker.log = 'loud'", "log in [worker] of bee.toml: 'loud' is not one of 'text'"),
        ({}, "worker.metrics = 'x'", "metrics in [worker] of bee.toml: 'x' is not a port"),
        ({}, "worker.metrics = 99999", "metrics in [worker] of bee.toml: '99999' is not a port"),
        ({}, "worker.colour = 1", "unknown setting in [worker] of bee.toml: colour (bee knows: u"),
        ({}, "url = ", "cannot read bee.toml: "),
        ({"BEE_CONFIG": "no.toml"}, "", "there is no file no.toml, which BEE_CONFIG names"),
    ],
)
@pytest.mark.parametrize("words", [("config",), ("worker", "nowhere:hive")], ids=" ".join)
def test_what_cannot_be_used_is_said_with_its_place(
    bee: Bee,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    variables: dict[str, str],
    text: str,
    says: str,
    words: tuple[str, ...],
) -> None:
    (tmp_path / "bee.toml").write_text(text)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    answer = bee(*words)

    assert 2 == answer.exit_code
    assert says in answer.stderr
    assert "" == answer.stdout


def test_help_reads_no_file(bee: Bee, tmp_path: Path) -> None:
    (tmp_path / "bee.toml").write_text("= nonsense")

    assert 0 == bee("worker", "--help").exit_code
    assert 0 == bee("config", "--help").exit_code
    assert 0 == bee("--help").exit_code


def test_a_file_is_named_for_this_command_and_what_it_starts_alone(
    bee: Bee, tmp_path: Path
) -> None:
    (tmp_path / "other.toml").write_text('url = "redis://other"')

    assert ("redis://other", "other.toml") == settings(bee, "--config", "other.toml")["url"]
    assert "BEE_CONFIG" not in os.environ
    assert ("memory://", "default") == settings(bee)["url"]


@pytest.mark.parametrize(
    ("file", "says"),
    [("nowhere.toml", "no file nowhere.toml, which --config names"), (".", "is a directory")],
)
def test_a_file_that_is_not_there_is_wrong_use(bee: Bee, file: str, says: str) -> None:
    answer = bee("--config", file, "config")

    assert 2 == answer.exit_code
    assert says in answer.stderr


def test_what_may_be_a_mistake_is_a_warning(
    bee: Bee, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BEE_WROKER_GRACE", "hunter2")
    (tmp_path / "bee.toml").touch()
    (tmp_path / "pyproject.toml").write_text("[tool.bee]\n")

    answer = bee("config")

    assert 0 == answer.exit_code
    assert "Warning: [tool.bee] in pyproject.toml is not read" in answer.stderr
    assert "no variable BEE_WROKER_GRACE; did you mean BEE_WORKER_GRACE?" in answer.stderr
    assert "hunter2" not in answer.output


def test_the_health_of_a_worker_is_asked_of_the_file_it_was_told(bee: Bee, tmp_path: Path) -> None:
    (tmp_path / "bee.toml").write_text('worker.heartbeat_file = "beat"')

    assert "no heartbeat file beat" in bee("health").output


def test_the_executable_does_the_same(run_bee: RunBee) -> None:
    Path("other.toml").write_text("worker.concurrency = 7")

    answer = run_bee("--config", "other.toml", "config", "--json")

    assert '{"name":"worker.concurrency","value":7,"source":"other.toml"}' in answer.stdout
    assert 0 == answer.returncode


def test_no_two_options_share_a_variable() -> None:
    variables = [name for option in OPTIONS for name in option.variables]

    assert len(variables) == len(set(variables))
    assert all(isinstance(option, click.Option) for option in OPTIONS)
