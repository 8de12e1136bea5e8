"""From `MOD:HIVE` to a hive: the user's program is imported here and nowhere else."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from types import ModuleType
from typing import Any, NoReturn

import click

from bee_core.cli.common.errors import WrongUse
from bee_core.hive import Hive
from bee_core.hive_queue import HiveQueue
from bee_core.sync import Hive as SyncHive


def load_hive(target: str) -> Hive:
    """The hive that is meant; wrong use, with a sentence that says why, if there is none."""
    name, _, attribute = target.partition(":")
    module = _import(name)
    return _only_hive(module) if not attribute else _named_hive(module, attribute)


def pick_queue(hive: Hive, name: str | None) -> HiveQueue[Any]:
    """The queue of that name, or the only one there is; wrong use otherwise."""
    known = ", ".join(hive.queues) or "none"
    if name is not None:
        if name not in hive.queues:
            raise WrongUse(f"this hive has no queue {name!r}; it has: {known}")
        return hive.queues[name]
    if len(hive.queues) != 1:
        raise WrongUse(f"say which queue: this hive has {known}")
    return next(iter(hive.queues.values()))


def names_of(queues: str | None, to_do_all: str) -> list[str] | None:
    """What `--queues A,B` names, None if it was not given; wrong use if it names nothing."""
    if queues is None:
        return None
    names = [name.strip() for name in queues.split(",") if name.strip()]
    if not names:
        raise WrongUse(f"--queues names no queue: leave it out to {to_do_all}")
    return names


def _import(name: str) -> ModuleType:
    if not name or not all(part.isidentifier() for part in name.split(".")):
        raise WrongUse(
            f"{name!r} is not the name of a module: say MODULE:HIVE, as in shop.jobs:hive"
        )
    try:
        here = os.getcwd()
    except OSError:
        raise WrongUse("the current directory was deleted: go to another") from None
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            file = name.endswith(".py") and os.path.exists(name)
            meant = f" (do you mean {name.removesuffix('.py')}?)" if file else ""
            raise WrongUse(
                f"there is no module {error.name!r}, neither installed nor in {here}{meant}"
            ) from None
        _fail(name, error)
    except (Exception, SystemExit) as error:
        _fail(name, error)


def _fail(name: str, error: BaseException) -> NoReturn:
    """The user's own traceback, without the steps that lead to it."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if f.filename != __file__ and not f.filename.startswith("<frozen imp")]
    own = [f for f in own if os.path.basename(os.path.dirname(f.filename)) != "importlib"]
    if own:
        click.echo("Traceback (most recent call last):", err=True)
        click.echo("".join(traceback.format_list(own)), err=True, nl=False)
    what = "".join(traceback.format_exception_only(error)).strip()
    click.echo(what, err=True)
    raise WrongUse(f"{name} cannot be imported: {type(error).__name__}") from None


def _hives(module: ModuleType) -> dict[str, Hive]:
    return {name: hive for name, value in vars(module).items() if (hive := _hive(value))}


def _hive(value: object) -> Hive | None:
    """A hive, also behind a view without await."""
    value = value.inner if isinstance(value, SyncHive) else value
    return value if isinstance(value, Hive) else None


def _only_hive(module: ModuleType) -> Hive:
    hives = _hives(module)
    different = {id(hive): hive for hive in hives.values()}
    if len(different) == 1:
        return next(iter(different.values()))
    if not hives:
        raise WrongUse(f"there is no Hive in {module.__name__}: make one, hive = bee.Hive()")
    raise WrongUse(
        f"{module.__name__} has several hives: say which, {_choices(module.__name__, hives)}"
    )


def _named_hive(module: ModuleType, attribute: str) -> Hive:
    found: object = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if hive := _hive(found):
        return hive
    hives = _hives(module)
    there = f"it has {_choices(module.__name__, hives)}" if hives else "it has no Hive at all"
    if found is None:
        raise WrongUse(f"{module.__name__} has no {attribute!r}; {there}")
    kind = type(found).__name__
    raise WrongUse(f"{module.__name__}:{attribute} is no Hive but of type {kind}; {there}")


def _choices(module: str, hives: dict[str, Hive]) -> str:
    return " or ".join(f"{module}:{name}" for name in hives)
