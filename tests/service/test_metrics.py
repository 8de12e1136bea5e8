"""`bee worker --metrics`: one page, of one process or of all."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
from urllib.request import urlopen

import pytest

from .support import Service


async def page(service: Service) -> str:
    """What Prometheus would get. With port 0 the log says where."""
    await service.until(lambda: "metrics at http://" in service.said())
    found = re.search(r"metrics at (http://\S+)", service.said())
    assert found is not None
    return await asyncio.to_thread(_get, found[1])


def _get(url: str) -> str:
    with urlopen(url) as answer:
        return str(answer.read().decode())


def series(text: str, name: str, queue: str) -> float:
    lines = [line for line in text.splitlines() if line.startswith(name) and queue in line]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


async def until(service: Service, name: str, value: float) -> str:
    """The page as soon as that is what it says of the queue."""
    while series(text := await page(service), name, service.queue) != value:
        await asyncio.sleep(0.05)
    return text


@pytest.mark.parametrize("words", [(), ("--processes", "2")], ids=["alone", "two"])
async def test_what_all_processes_do_is_on_one_page(
    service: Service, words: tuple[str, ...]
) -> None:
    workers = 2 if words else 1
    process = service.start("--metrics", "127.0.0.1:0", *words)
    await service.working(workers)
    await service.send(count=10)
    await service.emptied()

    text = await until(service, "bee_attempts_total", 10)
    assert workers == series(text, "bee_workers", service.queue)
    assert 10 == series(text, "bee_fates_total", service.queue)
    assert 10 == series(text, "bee_attempt_duration_seconds_count", service.queue)
    process.send_signal(signal.SIGTERM)
    assert 0 == await service.code(process)


async def test_a_process_that_died_is_no_longer_counted(service: Service) -> None:
    process = service.start("--metrics", "127.0.0.1:0", "--processes", "2", "--events", "events")
    await service.working(2)

    await service.send("die")
    await service.working(3)
    await service.until(lambda: service.events("ProcessEnded"))

    text = await page(service)
    assert 'bee_processes_ended_total{process="' in text
    await until(service, "bee_workers", 2)
    process.send_signal(signal.SIGTERM)
    await service.code(process)


async def test_counters_go_on_when_the_code_is_reloaded(service: Service) -> None:
    process = service.start("--metrics", "127.0.0.1:0", "--reload")
    await service.working()
    await service.send(count=3)
    await service.emptied()
    (service.directory / "new.py").touch()
    await service.working(2)
    await service.send(count=2)
    await service.emptied()

    await until(service, "bee_attempts_total", 5)
    process.send_signal(signal.SIGTERM)
    assert 0 == await service.code(process)


@pytest.mark.parametrize("words", [(), ("--processes", "2")], ids=["alone", "two"])
def test_a_port_that_is_taken_is_wrong_use(service: Service, words: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        answer = service.run("worker", "shop", "--metrics", f"127.0.0.1:{port}", *words)

    assert 2 == answer.returncode
    assert f"--metrics: cannot listen on 127.0.0.1, port {port}: " in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize("given", ["", "x", "-1", "70000", "localhost:", "localhost:http"])
def test_what_is_no_address_is_wrong_use(service: Service, given: str) -> None:
    answer = service.run("worker", "shop", "--metrics", given)

    assert 2 == answer.returncode
    assert "is not a port, or an address like 127.0.0.1:9090" in answer.stderr


@pytest.mark.parametrize("words", [(), ("--processes", "2")], ids=["alone", "two"])
def test_without_the_library_it_says_what_to_install(
    service: Service, words: tuple[str, ...]
) -> None:
    (service.directory / "prometheus_client.py").write_text("raise ImportError('not here')")

    answer = service.run("worker", "shop", "--metrics", "0", *words, PYTHONPATH=path(service))

    assert 2 == answer.returncode
    assert 'pip install "bee-jobs[prometheus]"' in answer.stderr


def path(service: Service) -> str:
    return f"{service.directory}:{service.environment()['PYTHONPATH']}"
