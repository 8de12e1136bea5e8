"""Where settings come from: arguments, then the environment, then a file, then defaults.

The file is the one that BEE_CONFIG names; else `bee.toml` in the current directory; else the table
`[tool.bee]` of `pyproject.toml` there. What `[worker]` says are options of `bee worker`: they are
checked here for their type, and become values where the options of the command line do.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec

from bee_core.errors import InvalidOption
from bee_core.url import UrlText, as_url

DEFAULT_URL = UrlText("memory://")
URL_VARIABLE = "BEE_URL"
CONFIG_VARIABLE = "BEE_CONFIG"
HEARTBEAT_VARIABLE = "BEE_HEARTBEAT_FILE"
"""Of `bee worker` and of `bee health`; beside the one that every option of `bee worker` has."""
DEFAULT = "default"
ARGUMENT = "argument"


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a file says in `[worker]`: options of `bee worker`. None: it does not say."""

    url: str | None = None
    queues: str | list[str] | None = None
    concurrency: int | None = None
    processes: int | None = None
    until_empty: bool | None = None
    grace: str | int | float | None = None
    max_jobs: int | None = None
    max_rss: str | int | None = None
    heartbeat_file: str | None = None
    events: str | None = None
    metrics: str | int | None = None
    reload: bool | None = None
    loop: str | None = None
    log: str | None = None
    log_level: str | None = None

    def options(self) -> dict[str, Any]:
        """What it says, by name, as the command line would have it."""
        found = msgspec.structs.asdict(self)
        if isinstance(self.queues, list):
            found["queues"] = ",".join(self.queues)
        return {name: value for name, value in found.items() if value is not None}


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What is set, and where. A password in it shows in no repr."""

    url: str
    url_source: str
    """`argument`, the name of a variable, the name of the file, or `default`."""
    worker: WorkerSettings = WorkerSettings()
    """Of the file alone; variables and arguments come before it."""
    file: str | None = None
    """The file that was read, as it is called in messages."""
    remarks: tuple[str, ...] = ()
    """What somebody may have meant otherwise."""


def read_settings(url: str | None = None, *, directory: Path | None = None) -> Settings:
    """What is set, with `url` as the argument. Raises InvalidOption for a file that is wrong."""
    file, table, remarks = _find(directory or _here())
    worker = _worker(table.get("worker", {}), file)
    chosen, source = DEFAULT_URL, DEFAULT
    if "url" in table:
        chosen, source = _url(table["url"], file), file or DEFAULT
    if variable := os.environ.get(URL_VARIABLE):
        chosen, source = UrlText(variable), URL_VARIABLE
    if url is not None:
        chosen, source = as_url(url), ARGUMENT
    return Settings(url=chosen, url_source=source, worker=worker, file=file, remarks=remarks)


def broker_url(given: str | None = None, *, directory: Path | None = None) -> UrlText:
    """The broker's URL: as given, else BEE_URL, else `url` of the file, else memory://.

    What decides is all that is looked at: with BEE_URL set no file is read.
    """
    if given is not None:
        return as_url(given)
    if variable := os.environ.get(URL_VARIABLE):
        return UrlText(variable)
    return UrlText(read_settings(directory=directory).url)


def worker_variable(option: str) -> str:
    """The variable of an option of `bee worker`."""
    return f"BEE_WORKER_{option.upper()}"


def known_variables() -> list[str]:
    """Every variable that bee reads."""
    of_worker = [worker_variable(name) for name in WorkerSettings.__struct_fields__]
    return [URL_VARIABLE, CONFIG_VARIABLE, HEARTBEAT_VARIABLE, *of_worker]


def unknown_variables() -> list[str]:
    """A sentence for each variable that looks like one of bee's and is none."""
    known = known_variables()
    found = []
    for name in sorted(os.environ):
        if name.startswith("BEE_") and name not in known:
            near = get_close_matches(name, known, n=1, cutoff=0.8)
            guess = f"; did you mean {near[0]}?" if near else ""
            found.append(f"bee knows no variable {name}{guess}")
    return found


# Reading the file.


def _here() -> Path:
    try:
        return Path.cwd()
    except OSError as error:
        raise InvalidOption(
            f"the current directory cannot be read, or was deleted ({error.strerror}): "
            "go to another one"
        ) from None


def _find(here: Path) -> tuple[str | None, dict[str, Any], tuple[str, ...]]:
    """Which file counts, by its name in messages, and what it says."""
    if named := os.environ.get(CONFIG_VARIABLE):
        path = here / named
        if not path.exists():
            raise InvalidOption(f"there is no file {named}, which {CONFIG_VARIABLE} names")
        named = str(path.relative_to(here)) if path.is_relative_to(here) else named
        if path.name == "pyproject.toml":
            return f"[tool.bee] in {named}", _tool(path, named) or {}, ()
        return named, _checked(_read(path, named), named), ()
    own, project = here / "bee.toml", here / "pyproject.toml"
    shared = f"[tool.bee] in {project.name}"
    if own.exists():
        table = _checked(_read(own, own.name), own.name)
        beside = _tool_is_there(project)
        unread = f"{shared} is not read, because there is a {own.name}"
        return own.name, table, (unread,) if beside else ()
    found = _tool(project, project.name) if project.exists() else None
    return (None, {}, ()) if found is None else (shared, found, ())


def _tool(path: Path, name: str) -> dict[str, Any] | None:
    """The table `[tool.bee]`, if there is one."""
    tool = _read(path, name).get("tool")
    if not isinstance(tool, dict) or "bee" not in tool:
        return None
    return _checked(tool["bee"], f"[tool.bee] in {name}")


def _tool_is_there(project: Path) -> bool:
    """Whether there is one that nobody reads. What else is wrong with that file matters not."""
    try:
        return _tool(project, project.name) is not None
    except InvalidOption:
        return False


def _read(path: Path, name: str) -> dict[str, Any]:
    # `from None`: what these errors hold of the text may be a password.
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InvalidOption(f"cannot read {name}: it is not UTF-8: {error.reason}") from None
    except (tomllib.TOMLDecodeError, OSError, RecursionError) as error:
        raise InvalidOption(f"cannot read {name}: {error}") from None


def _checked(table: object, file: str) -> dict[str, Any]:
    """A table of settings, of which each is known."""
    if not isinstance(table, dict):
        raise InvalidOption(f"{file} must be a table")
    _check_known(table, ("url", "worker"), file)
    return table


def _check_known(table: Mapping[str, object], known: tuple[str, ...], where: str) -> None:
    if unknown := sorted(table.keys() - set(known)):
        raise InvalidOption(
            f"unknown setting in {where}: {', '.join(unknown)} (bee knows: {', '.join(known)})"
        )


def _url(value: object, file: str | None) -> UrlText:
    if not isinstance(value, str):
        raise InvalidOption(f"url in {file} must be a string, not {type(value).__name__}")
    return UrlText(value)


def _worker(table: object, file: str | None) -> WorkerSettings:
    where = f"[worker] of {file}"
    if not isinstance(table, dict):
        raise InvalidOption(f"{where} must be a table, not {type(table).__name__}")
    _check_known(table, WorkerSettings.__struct_fields__, where)
    for name, value in table.items():
        try:
            msgspec.convert({name: value}, WorkerSettings)
        except msgspec.ValidationError as error:  # it says what it got, but not the value
            problem = str(error).partition(" - at ")[0].replace("`", "")
            problem = problem.replace(" | null", "")
            raise InvalidOption(f"{name} in {where}: {problem[0].lower()}{problem[1:]}") from None
    found = msgspec.convert(table, WorkerSettings)
    shy = None if found.url is None else UrlText(found.url)
    return msgspec.structs.replace(found, url=shy)
