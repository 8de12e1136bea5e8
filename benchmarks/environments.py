"""An environment for each set of dependencies, made once from the header of a contender."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
ENVIRONMENTS = Path(__file__).parent / ".environments"
OURSELVES = "bee-jobs"
_HEADER = re.compile(r"(?m)^# /// script\n((?:#.*\n)+?)# ///$")


def dependencies(program: str) -> list[str]:
    """What the header of a program (PEP 723) asks for."""
    found = _HEADER.search(program)
    if found is None:
        return []
    lines = [line.removeprefix("#").removeprefix(" ") for line in found[1].splitlines()]
    listed: list[str] = tomllib.loads("\n".join(lines)).get("dependencies", [])
    return listed


def version(wanted: list[str]) -> str:
    """The version of the first of these, which is the library that a contender is about."""
    if not wanted:
        return ""
    if wanted[0].startswith(OURSELVES):
        settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
        return str(settings["project"]["version"])
    return wanted[0].partition("==")[2]


def interpreter(wanted: list[str]) -> Path:
    """The Python of an environment with exactly these, which is made if it is not there yet."""
    folder = ENVIRONMENTS / _name(wanted)
    python, ready = folder / "bin" / "python", folder / "ready"
    if not ready.exists():
        venv.create(folder, with_pip=True, clear=True)
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        made = subprocess.run([*command, *_arguments(wanted)], capture_output=True, text=True)
        if made.returncode:
            raise RuntimeError(f"{', '.join(wanted)} cannot be installed:\n{made.stderr}")
        ready.touch()
    return python


def _name(wanted: list[str]) -> str:
    parts = [*sorted(wanted), sys.version]
    if any(one.startswith(OURSELVES) for one in wanted):  # whose own dependencies may have changed
        parts += [str(ROOT), (ROOT / "pyproject.toml").read_text(encoding="utf-8")]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _arguments(wanted: list[str]) -> list[str]:
    """What to tell pip. bee is this working tree."""
    arguments: list[str] = []
    for one in wanted:
        if one.startswith(OURSELVES):
            arguments += ("--editable", f"{ROOT}{one.removeprefix(OURSELVES)}")
        else:
            arguments.append(one)
    return arguments
