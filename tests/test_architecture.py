"""The shape of the library: who may import whom, and how long a file may be."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ["bee_core", "bee_memory", "bee_redis", "bee_pg"]
BACKENDS = {"bee_memory", "bee_redis", "bee_pg", "redis", "psycopg", "psycopg_pool"}

# From bottom to top. A module imports from lines above its own here, never from its own or below.
# A name stands for a module of bee_core, or for a whole subpackage; bee_core is its __init__.
LAYERS = [
    [
        "errors",
        "alarm",
        "clock",
        "forks",
        "child",
        "ids",
        "optional",
        "places",
        "stacks",
        "health",
        "meter",
        "text",
    ],
    ["capacity", "duration", "parent", "parts", "threads", "timing", "trouble"],
    ["disposition", "processes", "url"],
    ["config", "message", "strategy"],
    ["checks", "logs", "stored"],
    ["adoption", "batches", "broker", "export", "job", "outcome", "packing"],
    ["auto", "presence", "spread"],
    [
        "checkup",
        "codec",
        "decide",
        "events",
        "group",
        "registry",
        "results",
        "scaling",
        "schedule",
    ],
    ["explain", "fingerprint", "journal", "prometheus", "tracing"],
    ["diagnosis", "queue", "schema", "sharing"],
    ["delivery"],
    ["attempt", "ticks"],
    ["handlers", "moving", "planner", "opentelemetry", "portion", "renewal"],
    ["heartbeat", "hive_queue", "inbox", "fetcher", "settler", "slots", "verdict"],
    ["ahead", "reporter"],
    ["held"],
    ["upkeep"],
    ["worker"],
    ["hive"],
    ["service", "sync"],
    ["bee_core"],
    ["testing"],
    ["cli"],
    ["__main__"],
]

# (importer, imported) that go upwards, for the type checker alone.
UPWARD_FOR_TYPES: set[tuple[str, str]] = {("errors", "message")}

# Library files that may be longer than LONGEST lines, each with the reason.
LONGEST = 350
LONG_FILES = {
    "bee_core/broker.py": "the whole contract, in the one file that says so",
    "bee_memory/broker.py": "every verb of the contract, in one place",
}


class Import(NamedTuple):
    """One import statement's target, as a dotted name."""

    importer: Path
    target: str
    for_types: bool


def sources(*packages: str) -> list[Path]:
    return sorted(file for package in packages for file in (ROOT / package).rglob("*.py"))


def imports(file: Path) -> Iterator[Import]:
    """Every import in a file, also those inside functions and under TYPE_CHECKING."""
    tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                targets = [alias.name for alias in names]
            case ast.ImportFrom(module=module, level=0, names=names) if module is not None:
                targets = [f"{module}.{alias.name}" for alias in names]
            case ast.ImportFrom():
                targets = [f"relative import in line {node.lineno}"]
            case _:
                continue
        for target in targets:
            yield Import(file, target, id(node) in for_types)


def unit(dotted: str) -> str:
    """The name in LAYERS that a dotted name inside bee_core belongs to."""
    parts = dotted.split(".")
    if len(parts) > 1 and parts[1] in UNITS:
        return parts[1]
    return "bee_core"


def unit_of_file(file: Path) -> str:
    inside = file.relative_to(ROOT / "bee_core").parts
    return "bee_core" if inside == ("__init__.py",) else inside[0].removesuffix(".py")


UNITS = {unit_of_file(file) for file in sources("bee_core")}
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def rises(importer: str, imported: str) -> bool:
    """Whether an import goes upwards, or sideways; inside a subpackage all are at home."""
    return importer != imported and LEVEL.get(importer, 0) <= LEVEL.get(imported, 0)


def shown(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def test_every_module_of_the_core_has_its_place_in_the_layers() -> None:
    listed = [name for names in LAYERS for name in names]

    assert sorted(UNITS) == sorted(listed), "a new module belongs into LAYERS, exactly once"


def test_imports_go_downwards_only() -> None:
    upwards = {
        (unit_of_file(file), unit(found.target))
        for file in sources("bee_core")
        for found in imports(file)
        if found.target.partition(".")[0] == "bee_core"
        and not found.for_types
        and rises(unit_of_file(file), unit(found.target))
    }

    assert set() == upwards


def test_imports_for_the_type_checker_that_go_upwards_are_listed() -> None:
    upwards = {
        (unit_of_file(file), unit(found.target))
        for file in sources("bee_core")
        for found in imports(file)
        if found.target.partition(".")[0] == "bee_core"
        and found.for_types
        and rises(unit_of_file(file), unit(found.target))
    }

    assert UPWARD_FOR_TYPES == upwards


def test_no_module_imports_relatively() -> None:
    relative = [
        f"{shown(file)}: {found.target}"
        for file in sources(*PACKAGES)
        for found in imports(file)
        if found.target.startswith("relative")
    ]

    assert [] == relative


def test_the_core_imports_no_backend() -> None:
    found = [
        f"{shown(file)} imports {found.target}"
        for file in sources("bee_core")
        for found in imports(file)
        if found.target.partition(".")[0] in BACKENDS
    ]

    assert [] == found


def test_the_memory_broker_needs_the_core_msgspec_and_the_standard_library_only() -> None:
    allowed = {"bee_core", "bee_memory", "msgspec"} | sys.stdlib_module_names
    found = [
        f"{shown(file)} imports {found.target}"
        for file in sources("bee_memory")
        for found in imports(file)
        if found.target.partition(".")[0] not in allowed
    ]

    assert [] == found


def test_a_backend_imports_no_other_backend() -> None:
    backends = [package for package in PACKAGES if package != "bee_core"]
    found = [
        f"{shown(file)} imports {found.target}"
        for package in backends
        for file in sources(package)
        for found in imports(file)
        if found.target.partition(".")[0] in set(backends) - {package}
    ]

    assert [] == found


def test_a_backend_needs_no_worker() -> None:
    """Backends are dull: nothing above the protocol and its data."""
    highest = LEVEL["broker"]
    allowed = {name for name, level in LEVEL.items() if level <= highest}
    found = [
        f"{shown(file)} imports {found.target}"
        for file in sources("bee_memory", "bee_redis", "bee_pg")
        for found in imports(file)
        if found.target.partition(".")[0] == "bee_core" and unit(found.target) not in allowed
    ]

    assert [] == found


@pytest.mark.parametrize("module", ["bee_core", "bee_memory"])
def test_importing_it_loads_no_backend_and_no_command_line(module: str) -> None:
    program = f"import sys, json, {module}; print(json.dumps(sorted(sys.modules)))"
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )

    loaded = {name.partition(".")[0] for name in json.loads(answer.stdout)}

    assert set() == loaded & {
        "click",
        "redis",
        "psycopg",
        "psycopg_pool",
        "pytest",
        "hypothesis",
        "prometheus_client",
        "opentelemetry",
    }
    if module == "bee_core":
        assert "bee_memory" not in loaded


def test_nothing_prints_but_the_command_line() -> None:
    calls = [
        f"{shown(file)}:{node.lineno}"
        for file in sources(*PACKAGES)
        if "cli" not in file.parts
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"print", "breakpoint", "input"}
    ]

    assert [] == calls


def test_files_are_short_enough_to_be_read() -> None:
    lengths = {
        shown(file): len(file.read_text(encoding="utf-8").splitlines())
        for file in sources(*PACKAGES)
    }

    long = {name: lines for name, lines in lengths.items() if lines > LONGEST}

    assert set(LONG_FILES) == set(long), "look for the noun that tries to get out"


def test_every_module_says_what_lives_in_it() -> None:
    silent = [
        shown(file)
        for file in sources(*PACKAGES)
        if (text := file.read_text(encoding="utf-8")).strip()
        and ast.get_docstring(ast.parse(text)) is None
    ]

    assert [] == silent
