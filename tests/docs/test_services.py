"""The examples that embed a hive in a web service, served by the real server, on every store."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import bee_core as bee
from tests.servers import PgServer, RedisServer, free_port

from .markdown import ROOT, blocks

EXAMPLES = ROOT / "examples"
APPS = {"fastapi_app": "app", "django_app": "application"}
PATIENCE = 20.0


class Service:
    """An example that is being served."""

    def __init__(self, process: subprocess.Popen[str], port: int, store: str) -> None:
        self.process = process
        self.store = store
        self.port = port

    def ask(self, path: str, method: str = "GET") -> tuple[int, dict[str, Any]]:
        """The status and the body of an answer."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refusal:
            return refusal.code, json.load(refusal)

    def order(self, pages: int) -> str:
        """The id of a report that was ordered; a page takes a tenth of a second."""
        status, body = self.ask(f"/reports/ada?pages={pages}", "POST")
        assert 202 == status
        return str(body["id"])

    def until_running(self) -> None:
        until(lambda: self.ask("/healthz")[1]["running"] == 1)

    def end(self) -> str:
        """Let it end by SIGTERM; what it has said."""
        self.process.send_signal(signal.SIGTERM)
        output, _ = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode in (0, -signal.SIGTERM), output
        return output


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


@contextmanager
def served(name: str, store: str, grace: float = 10) -> Iterator[Service]:
    port = free_port()
    command = [sys.executable, "-W", "error", "-m", "uvicorn", f"{name}:{APPS[name]}"]
    command += ["--app-dir", str(EXAMPLES), "--port", str(port)]
    environment = {**os.environ, "BEE_URL": store, "GRACE": str(grace)}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )
    service = Service(process, port, store)

    def answers() -> bool:
        assert process.poll() is None, process.communicate()[0]
        try:
            return service.ask("/healthz")[0] == 200
        except OSError:
            return False

    try:
        until(answers)
        yield service
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(params=["memory", "redis", "postgresql"])
def store(request: pytest.FixtureRequest) -> str:
    """What BEE_URL says: that is all that differs."""
    match request.param:
        case "redis":
            server: RedisServer = request.getfixturevalue("valkey")
            return f"{server.url}?prefix={uuid.uuid4().hex}"
        case "postgresql":
            database: PgServer = request.getfixturevalue("pg")
            return database.database() + "&migrate=1"
        case _:
            return "memory://"


def in_store(store: str, look: Callable[[bee.Hive], Any]) -> Any:
    """What somebody else sees in the store, when the service is gone."""

    async def ask() -> Any:
        async with bee.Hive(store) as hive:
            return await look(hive)

    return asyncio.run(ask())


@pytest.mark.parametrize("name", APPS)
def test_a_service_sends_jobs_runs_them_and_lets_them_end_when_it_is_told_to_stop(
    name: str, store: str
) -> None:
    with served(name, store) as service:
        first = service.order(pages=2)

        assert (404, {"detail": "not yet"}) == service.ask(f"/reports/{first}")
        assert (404, {"detail": "no such report"}) == service.ask("/reports/nobody-s")
        done = service.ask(f"/reports/{first}?wait=10")
        assert (200, {"report": "2 pages for ada"}) == done
        assert (200, {"waiting": 0, "running": 0}) == service.ask("/healthz")

        last = service.order(pages=10)
        service.until_running()
        output = service.end()

        assert "Application shutdown complete" in output
        assert "Traceback" not in output
    if store != "memory://":
        result = in_store(store, lambda hive: hive.queue("reports", object).result(last, timeout=0))
        assert "10 pages for ada" == result


@pytest.mark.parametrize("name", APPS)
def test_what_does_not_end_within_the_grace_is_given_back_and_counted_as_no_failure(
    name: str, store: str
) -> None:
    with served(name, store, grace=0.3) as service:
        id = service.order(pages=10_000)
        service.until_running()
        output = service.end()

        assert "Application shutdown complete" in output
        assert "Traceback" not in output
    if store != "memory://":
        stored = in_store(store, lambda hive: hive.broker.get("reports", id))
        assert bee.State.READY == stored.state
        assert bee.Counters(deliveries=1, releases=1) == stored.counters


@pytest.mark.parametrize("name", APPS)
def test_a_client_that_waits_gets_its_report_although_the_service_is_told_to_stop(
    name: str,
) -> None:
    with served(name, "memory://") as service:
        id = service.order(pages=10)
        service.until_running()
        client = http.client.HTTPConnection("127.0.0.1", service.port, timeout=PATIENCE)
        client.request("GET", f"/reports/{id}?wait=10")
        service.ask("/healthz")  # it is served after that one
        service.end()

        assert {"report": "10 pages for ada"} == json.load(client.getresponse())
        client.close()


@pytest.mark.parametrize("name", APPS)
def test_a_service_whose_hive_cannot_start_does_not_start_either(name: str) -> None:
    """A server that went on without the hive would take orders that nobody sees to."""
    command = [sys.executable, "-m", "uvicorn", f"{name}:{APPS[name]}", "--app-dir", str(EXAMPLES)]
    environment = {**os.environ, "BEE_URL": "carrier-pigeon://"}
    run = subprocess.run(
        [*command, "--port", str(free_port())],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=environment,
        check=False,
    )

    assert run.returncode not in (0, None)
    assert "carrier-pigeon" in run.stderr


@pytest.mark.parametrize("name", APPS)
def test_the_page_about_a_framework_shows_the_example(name: str) -> None:
    page = ROOT / "docs" / "howto" / f"{name.removesuffix('_app')}.md"
    (shown, *_) = [block.text for block in blocks(page) if block.language == "python"]
    source = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")

    assert source.split('"""\n', 1)[1].strip() == shown.strip()
