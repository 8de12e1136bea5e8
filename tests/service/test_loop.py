"""`bee worker --loop uvloop`: another event loop, and signals that are heard all the same."""

from __future__ import annotations

import asyncio
import signal

import pytest

from .support import Service

LOOPS = """
import asyncio
from shop import Work, bee, hive, note, queue

queue.handlers._whole = None

@queue.handler
async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
    note(type(asyncio.get_running_loop()).__module__, delivery.id)
"""


@pytest.mark.parametrize("words", [(), ("--processes", "2")], ids=["alone", "two"])
@pytest.mark.parametrize(
    ("loop", "module"), [("uvloop", "uvloop"), ("asyncio", "asyncio.unix_events")]
)
async def test_jobs_run_in_that_loop(
    service: Service, loop: str, module: str, words: tuple[str, ...]
) -> None:
    (service.directory / "loops.py").write_text(LOOPS)
    await service.send(count=3)

    process = service.start("--loop", loop, "--until-empty", *words, target="loops:hive")

    assert 0 == await service.code(process)
    assert 3 == len(service.journal(module))


async def test_the_first_signal_waits_for_jobs(service: Service) -> None:
    process = service.start("--loop", "uvloop")
    await service.send("sleep", 1)
    await service.begun()

    process.send_signal(signal.SIGTERM)

    assert 0 == await service.code(process)
    assert 1 == len(service.journal("ends"))


async def test_the_second_signal_interrupts_them(service: Service) -> None:
    process = service.start("--loop", "uvloop", GRACE="3600")
    await service.send("sleep", 3600)
    await service.begun()

    for _ in range(2):
        process.send_signal(signal.SIGINT)
        await asyncio.sleep(0.2)

    assert 0 == await service.code(process, within=5)


async def test_the_third_signal_is_heard_by_a_loop_that_is_lost_in_a_call(service: Service) -> None:
    process = service.start("--loop", "uvloop", GRACE="3600", CANCEL_GRACE="3600")
    await service.send("block in C")
    await service.begun()

    for _ in range(3):
        process.send_signal(signal.SIGINT)
        await asyncio.sleep(0.2)

    assert 130 == await service.code(process, within=5)


@pytest.mark.parametrize("words", [(), ("--processes", "2")], ids=["alone", "two"])
def test_without_the_library_it_says_what_to_install(
    service: Service, words: tuple[str, ...]
) -> None:
    (service.directory / "uvloop.py").write_text("raise ImportError('not here')")
    path = f"{service.directory}:{service.environment()['PYTHONPATH']}"

    answer = service.run("worker", "shop", "--loop", "uvloop", *words, PYTHONPATH=path)

    assert 2 == answer.returncode
    assert 1 == answer.stderr.count('pip install "bee-jobs[uvloop]"')
    assert "Traceback" not in answer.stderr


def test_another_loop_is_wrong_use(service: Service) -> None:
    answer = service.run("worker", "shop", "--loop", "fast")

    assert 2 == answer.returncode
    assert "'fast' is not one of 'asyncio', 'uvloop'" in answer.stderr
