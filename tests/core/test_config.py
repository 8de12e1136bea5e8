"""Settings: which place counts, what is said of what cannot be used, and what is never shown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import bee_core as bee
from bee_core.config import (
    WorkerSettings,
    broker_url,
    known_variables,
    read_settings,
    unknown_variables,
)

SECRET = "hunter2"
URL = f"redis://ada:{SECRET}@localhost"


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in known_variables():
        monkeypatch.delenv(name, raising=False)


def write(path: str, text: str) -> None:
    Path(path).write_text(text, encoding="utf-8")


def test_without_any_setting_the_broker_is_in_memory() -> None:
    settings = read_settings()

    assert ("memory://", "default", None) == (settings.url, settings.url_source, settings.file)
    assert WorkerSettings() == settings.worker


def test_the_order_is_argument_variable_bee_toml_pyproject(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def found(given: str | None = None) -> tuple[str, str]:
        settings = read_settings(given)
        assert settings.url == broker_url(given)
        return settings.url, settings.url_source

    write("pyproject.toml", '[tool.bee]\nurl = "memory://pyproject"\n')
    assert ("memory://pyproject", "[tool.bee] in pyproject.toml") == found()

    write("bee.toml", 'url = "memory://bee-toml"\n')
    assert ("memory://bee-toml", "bee.toml") == found()

    monkeypatch.setenv("BEE_URL", "memory://variable")
    assert ("memory://variable", "BEE_URL") == found()

    assert ("memory://argument", "argument") == found("memory://argument")


def test_a_file_that_is_named_is_the_only_one(monkeypatch: pytest.MonkeyPatch) -> None:
    write("bee.toml", 'url = "memory://here"\nnonsense = 1\n')
    Path("there").mkdir()
    write("there/x.toml", 'url = "memory://there"\n')
    write("there/pyproject.toml", '[tool.bee]\nurl = "memory://project"\n')

    monkeypatch.setenv("BEE_CONFIG", "there/x.toml")
    assert ("memory://there", "there/x.toml") == (broker_url(), read_settings().url_source)

    monkeypatch.setenv("BEE_CONFIG", str(Path("there/pyproject.toml").absolute()))
    assert ("memory://project", "[tool.bee] in there/pyproject.toml") == (
        broker_url(),
        read_settings().url_source,
    )


def test_a_file_that_is_named_and_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEE_CONFIG", "nowhere.toml")

    with pytest.raises(bee.InvalidOption, match=r"no file nowhere.toml, which BEE_CONFIG names"):
        broker_url()


def test_an_empty_variable_is_no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEE_URL", "")
    monkeypatch.setenv("BEE_CONFIG", "")

    assert "memory://" == broker_url()


def test_a_broken_file_does_not_matter_to_who_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    write("bee.toml", "url = ")
    monkeypatch.setenv("BEE_URL", "memory://variable")

    assert "memory://variable" == broker_url()
    assert "memory://argument" == broker_url("memory://argument")


@pytest.mark.parametrize(
    "text", ['[project]\nname = "x"\n[tool.other]\nurl = "no"\n', "tool = 5\n", ""]
)
def test_files_of_other_tools_are_no_setting(text: str) -> None:
    write("pyproject.toml", text)

    assert "memory://" == broker_url()
    assert read_settings().file is None


def test_a_file_that_is_not_read_is_remarked_on() -> None:
    write("bee.toml", "")
    write("pyproject.toml", '[tool.bee]\nurl = "memory://pyproject"\n')

    settings = read_settings()

    assert "memory://" == settings.url
    assert (
        "[tool.bee] in pyproject.toml is not read, because there is a bee.toml",
    ) == settings.remarks


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("bee.toml", "ulr = 1", r"unknown setting in bee.toml: ulr \(bee knows: url, worker\)"),
        ("pyproject.toml", "[tool.bee]\nulr = 1", r"in \[tool.bee\] in pyproject.toml: ulr \(bee"),
        ("pyproject.toml", "[tool]\nbee = 1", r"\[tool.bee\] in pyproject.toml must be a table"),
        ("bee.toml", "worker = 1", r"\[worker\] of bee.toml must be a table, not int"),
        ("bee.toml", "worker.grcae = 1", r"in \[worker\] of bee.toml: grcae \(bee knows: url, q"),
        (
            "bee.toml",
            "worker.concurrency = '2'",
            r"concurrency in \[worker\] of bee.toml: expected",
        ),
        ("bee.toml", "worker.concurrency = true", "expected int, got bool"),
        ("bee.toml", "worker.concurrency = 2.5", "expected int, got float"),
        ("bee.toml", "worker.until_empty = 1", "expected bool, got int"),
        ("bee.toml", "worker.queues = [1]", "queues in .* expected str, got int"),
        ("bee.toml", "worker.grace = 2026-01-01", r"grace in \[worker\] of bee.toml: expected"),
    ],
)
def test_what_bee_does_not_know_is_an_error_that_names_the_place(
    file: str, text: str, says: str
) -> None:
    write(file, text)

    with pytest.raises(bee.InvalidOption, match=says):
        broker_url()


def test_what_a_file_says_of_the_worker_is_what_options_take() -> None:
    write(
        "bee.toml",
        f"""
        [worker]
        url = "{URL}"
        queues = ["mail", "films"]
        concurrency = 20
        grace = 2.5
        until_empty = false
        metrics = 9090
        """,
    )

    assert {
        "url": URL,
        "queues": "mail,films",
        "concurrency": 20,
        "grace": 2.5,
        "until_empty": False,
        "metrics": 9090,
    } == read_settings().worker.options()


def test_another_directory_may_be_named(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    write("there/bee.toml", 'url = "memory://there"\n')

    assert "memory://there" == broker_url(directory=tmp_path / "there")


@pytest.mark.parametrize("name", ["bee.toml", "pyproject.toml"])
@pytest.mark.parametrize("text", [b"url = ", b"= 1", b"[tool", b'url = "\xff"'], ids=repr)
def test_a_broken_file_is_an_error_that_names_it(name: str, text: bytes) -> None:
    Path(name).write_bytes(text)

    with pytest.raises(bee.InvalidOption, match=f"cannot read {name}: "):
        broker_url()


@pytest.mark.parametrize("value", ["5", "true", f'["{URL}"]', f'{{ host = "{URL}" }}'])
def test_a_url_that_is_no_text_is_an_error_without_the_password(value: str) -> None:
    write("bee.toml", f"url = {value}\n")

    with pytest.raises(bee.InvalidOption, match=r"url in bee.toml must be a string") as caught:
        broker_url()

    assert SECRET not in str(caught.value)


def test_a_file_that_cannot_be_opened_is_an_error_that_names_it() -> None:
    Path("bee.toml").mkdir()

    with pytest.raises(bee.InvalidOption, match=r"cannot read bee.toml: "):
        broker_url()


def test_a_url_that_is_given_must_be_text() -> None:
    with pytest.raises(bee.InvalidOption, match="a broker URL is text, not PosixPath"):
        bee.Hive(Path("redis"))  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [None, URL])
def test_a_password_shows_in_no_repr(monkeypatch: pytest.MonkeyPatch, given: str | None) -> None:
    write("bee.toml", f'url = "{URL}"\nworker.url = "{URL}"\n')

    settings = read_settings(given)

    assert URL == settings.url
    assert SECRET not in repr(settings)
    assert SECRET not in repr(settings.worker.options())
    monkeypatch.setenv("BEE_URL", URL)
    assert SECRET not in repr([read_settings().url, broker_url()])


def test_variables_that_look_like_bees_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEE_WROKER_GRACE", "1")
    monkeypatch.setenv("BEE_WORKER_GRACE", "1")
    monkeypatch.setenv("BEE_HIVE_COLOUR", SECRET)

    said = [text for text in unknown_variables() if "BEE_TEST" not in text]

    assert [
        "bee knows no variable BEE_HIVE_COLOUR",
        "bee knows no variable BEE_WROKER_GRACE; did you mean BEE_WORKER_GRACE?",
    ] == said


def test_a_file_that_is_nested_too_deeply_is_named() -> None:
    write("bee.toml", "a = " + "[" * 3000)

    with pytest.raises(bee.InvalidOption, match=r"cannot read bee\.toml: "):
        read_settings()


def test_a_directory_that_was_deleted_is_no_place_for_settings(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()

    with pytest.raises(bee.InvalidOption, match="the current directory cannot be read, or was"):
        read_settings()
