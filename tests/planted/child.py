"""pytest with a bug in the worker: `python -m tests.planted.child NAME`, in a process of its own.

The text of one module is altered on its way in, before anything has imported it.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import ModuleType

import pytest

from tests.planted.bug import ROOT, Bug
from tests.planted.worker import BUGS


class Planter(importlib.abc.MetaPathFinder):
    """Finds one module, with a bug in it."""

    def __init__(self, bug: Bug) -> None:
        self._bug = bug
        self._module = bug.file.removesuffix(".py").replace("/", ".")

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self._module:
            return None
        file = str(ROOT / self._bug.file)
        return importlib.util.spec_from_file_location(name, file, loader=Loader(self._bug, file))


class Loader(importlib.machinery.SourceFileLoader):
    """Reads the altered text where the file's own stands, and leaves no compiled file behind."""

    def __init__(self, bug: Bug, file: str) -> None:
        super().__init__(bug.file.removesuffix(".py").replace("/", "."), file)
        self._bug = bug

    def get_code(self, fullname: str) -> object:  # type: ignore[override]
        return compile(self._bug.altered(), self.path, "exec")


def main(name: str) -> int:
    os.environ.pop("CI", None)  # pytest would write whole differences
    [bug] = [bug for bug in BUGS if bug.name == name]
    planter = Planter(bug)
    assert planter._module not in sys.modules, "it is imported already"
    sys.meta_path.insert(0, planter)
    # Plain assertions: pytest would read all of bee's modules itself, to write theirs anew.
    options = [
        "-x",
        "-q",
        "--no-header",
        "--assert=plain",
        "-p",
        "no:cacheprovider",
        "--timeout",
        "15",
    ]
    ended = pytest.main([*options, *bug.proof])
    assert isinstance(sys.modules[planter._module].__loader__, Loader), "it was not planted"
    return ended


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
