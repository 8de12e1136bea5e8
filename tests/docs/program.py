"""Runs the programs on a page as its reader would: one after the other, in one namespace."""

from __future__ import annotations

import ast
import asyncio
import inspect
import io
import re
import sys
import types
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from .markdown import Block, blocks

FILE = re.compile(r"# ([a-z0-9_]+)\.py\n")


def run_page(page: Path, module: types.ModuleType, fixture: Callable[[str], object]) -> None:
    """Run every Python block, and every test that one defines. What it shows must be printed.

    A block may `await` at its top level, as in `python -m asyncio`. One that begins with the name
    of a file, `# hello.py`, can be imported by those below it.
    """
    with patch.dict(sys.modules):
        _run_blocks(page, module, fixture)


def _run_blocks(page: Path, module: types.ModuleType, fixture: Callable[[str], object]) -> None:
    for block in blocks(page):
        if block.language == "python":
            if file := FILE.match(block.text):
                sys.modules[file[1]] = module
            before = dict(vars(module))
            printed = _run_block(page, block, vars(module))
            if block.shows is not None:
                assert block.shows == printed, f"{page}, line {block.line}"
            for name, value in list(vars(module).items()):
                if name.startswith("test_") and before.get(name) is not value:
                    _run_test(value, fixture)


def _run_block(page: Path, block: Block, namespace: dict[str, Any]) -> str:
    padded = "\n" * (block.line - 1) + block.text  # so that a traceback shows the page's line
    flag = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code = compile(padded, page, "exec", flags=flag, dont_inherit=True)
    with redirect_stdout(io.StringIO()) as out:
        if code.co_flags & inspect.CO_COROUTINE:
            asyncio.run(types.FunctionType(code, namespace)())
        else:
            exec(code, namespace)
    return out.getvalue()


def _run_test(test: Callable[..., Any], fixture: Callable[[str], object]) -> None:
    arguments: dict[str, Any] = {}
    for name in inspect.signature(test).parameters:
        arguments[name] = fixture(name)
    for mark in getattr(test, "pytestmark", ()):  # which pytest would see to
        if mark.name == "bee":
            arguments["bee_hive"] = partial(arguments["bee_hive"], **mark.kwargs)
    if inspect.iscoroutinefunction(test):
        asyncio.run(test(**arguments))
    else:
        test(**arguments)
