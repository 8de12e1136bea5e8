"""`bee worker --reload`: new code runs, broken code does not, and nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from bee_core.service.reload import Watch

from .support import Service, children

PROGRAM = """
from pathlib import Path
from shop import Work, bee, hive, note, queue

VERSION = "{version}"
queue.handlers._whole = None

@queue.handler
async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
    note(VERSION, delivery.id)
"""


def write(service: Service, version: str) -> None:
    (service.directory / "live.py").write_text(PROGRAM.replace("{version}", version))


async def ran(service: Service, version: str) -> None:
    """Send jobs until one has run with that version of the code."""
    before = len(service.journal(version))
    await service.send()
    await service.until(lambda: len(service.journal(version)) > before)


@pytest.mark.parametrize("words", [(), ("--processes", "2")], ids=["alone", "two"])
async def test_changed_code_is_what_runs(service: Service, words: tuple[str, ...]) -> None:
    workers = 2 if words else 1
    write(service, "one")
    process = service.start("--reload", *words, target="live:hive")
    await service.working(workers)
    await ran(service, "one")

    write(service, "two")  # of the same size, and maybe in the same second
    await service.working(2 * workers)
    await ran(service, "two")

    assert workers == len(children(process.pid))
    process.send_signal(signal.SIGTERM)
    assert 0 == await service.code(process)
    assert "changed: live.py" in service.said()


async def test_a_running_job_may_end_with_the_old_code(service: Service) -> None:
    process = service.start("--reload")
    await service.send("sleep", 1.5)
    await service.begun()

    (service.directory / "new.py").touch()
    await service.working(2)

    assert 1 == len(service.journal("ends"))
    process.send_signal(signal.SIGTERM)
    assert 0 == await service.code(process)


async def test_another_change_hurries_the_old_code(service: Service) -> None:
    process = service.start("--reload")
    (id,) = await service.send("sleep", 3600)
    await service.begun()

    (service.directory / "new.py").touch()
    await service.until(lambda: "changed: new.py" in service.said())
    await asyncio.sleep(0.3)
    (service.directory / "newer.py").touch()

    await service.working(2)
    await service.begun(2)
    assert 1 == (await service.stored(id)).counters.releases
    process.send_signal(signal.SIGTERM)
    await asyncio.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    assert 0 == await service.code(process)


async def test_code_that_is_no_python_is_shown_and_the_old_code_goes_on(service: Service) -> None:
    write(service, "one")
    process = service.start("--reload", target="live:hive")
    await service.working()

    (service.directory / "live.py").write_text("def (:\n")
    await service.until(lambda: "the old code goes on until that is mended" in service.said())
    assert "SyntaxError: invalid syntax" in service.said()
    await ran(service, "one")
    write(service, "two")
    await service.working(2)
    await ran(service, "two")

    process.send_signal(signal.SIGTERM)
    assert 0 == await service.code(process)


@pytest.mark.parametrize("at_first", [True, False], ids=["at first", "later"])
async def test_a_program_that_cannot_be_loaded_waits_for_the_next_change(
    service: Service, at_first: bool
) -> None:
    broken = "import no_such_library\n"
    if at_first:
        (service.directory / "live.py").write_text(broken)
    else:
        write(service, "one")
    process = service.start("--reload", "--processes", "2", target="live:hive")
    if not at_first:
        await service.working(2)
        (service.directory / "live.py").write_text(broken)

    await service.until(lambda: "it is started again when a file has changed" in service.said())
    assert 1 == service.said().count("No module named 'no_such_library'")
    assert [] == children(process.pid)
    write(service, "two")
    await ran(service, "two")

    process.send_signal(signal.SIGTERM)
    assert 0 == await service.code(process)


async def test_a_signal_ends_it_while_it_waits(service: Service) -> None:
    process = service.start("--reload", target="nowhere:hive")
    await service.until(lambda: "it is started again when a file has changed" in service.said())

    process.send_signal(signal.SIGINT)

    assert 2 == await service.code(process, within=3)
    assert "Traceback" not in service.said()


async def test_it_ends_when_nothing_is_left(service: Service) -> None:
    await service.send(count=3)

    process = service.start("--reload", "--until-empty")

    assert 0 == await service.code(process)
    assert 3 == len(service.journal("ends"))


async def test_in_memory_it_may_be_alone(service: Service) -> None:
    process = service.start("--reload", BEE_URL="memory://")
    await service.working()

    assert "memory://: here are only the jobs that this process sends to itself" in service.said()
    process.send_signal(signal.SIGTERM)
    assert 0 == await service.code(process)


async def test_no_process_outlives_it(service: Service) -> None:
    process = service.start("--reload")
    await service.working()
    left = children(process.pid)

    process.kill()

    await service.until(lambda: not any(child.is_running() for child in left), within=6)


# What is watched.


async def changes(watch: Watch, within: float = 1.5) -> list[str]:
    try:
        async with asyncio.timeout(within):
            return [Path(file).name for file in await watch.changed()]
    except TimeoutError:
        return []


async def test_python_files_are_watched_and_others_are_not(tmp_path: Path) -> None:
    for place in ("pack", ".git", "node_modules", "env", "pack/__pycache__"):
        (tmp_path / place).mkdir()
    (tmp_path / "env" / "pyvenv.cfg").touch()
    (tmp_path / "pack" / "old.py").touch()
    watch = Watch([tmp_path])

    for place in (".git", "node_modules", "env", "pack/__pycache__"):
        (tmp_path / place / "x.py").touch()
    (tmp_path / "notes.txt").touch()
    assert [] == await changes(watch)

    (tmp_path / "pack" / "new.py").touch()
    (tmp_path / "pack" / "old.py").unlink()
    assert ["new.py", "old.py"] == await changes(watch, within=10)
    assert [] == await changes(watch)


async def test_what_is_written_in_many_steps_is_one_change(tmp_path: Path) -> None:
    watch = Watch([tmp_path])
    waiting = asyncio.create_task(watch.changed())

    for number in range(5):
        (tmp_path / f"m{number}.py").touch()
        await asyncio.sleep(0.1)

    assert 5 == len(await waiting)


async def test_a_file_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "loop.py").symlink_to(tmp_path / "loop.py")
    (tmp_path / "gone.py").symlink_to(tmp_path / "nowhere.py")
    (tmp_path / "self").symlink_to(tmp_path)
    watch = Watch([tmp_path, tmp_path / "no-such-place"])

    assert [] == await changes(watch, within=0.7)


def test_a_package_elsewhere_is_watched_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "src" / "pack").mkdir(parents=True)
    (tmp_path / "src" / "pack" / "__init__.py").touch()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.syspath_prepend(os.fspath(tmp_path / "src"))

    assert [tmp_path / "here", tmp_path / "src" / "pack"] == Watch.of_program(
        "pack.jobs:hive"
    ).roots
    assert [tmp_path / "here"] == Watch.of_program("nowhere").roots
