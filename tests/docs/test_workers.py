"""The examples whose jobs are run by `bee worker` in another process, on every store that can."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.servers import PgServer, RedisServer, free_port

from .markdown import ROOT, blocks
from .test_services import PATIENCE, Service, until

EXAMPLES = ROOT / "examples"
WITH_WORKERS = {"flask_app", "script"}


@pytest.fixture(params=["redis", "postgresql"])
def store(request: pytest.FixtureRequest) -> str:
    """What BEE_URL says: that is all that differs."""
    if request.param == "redis":
        server: RedisServer = request.getfixturevalue("valkey")
        return f"{server.url}?prefix={uuid.uuid4().hex}"
    database: PgServer = request.getfixturevalue("pg")
    return database.database() + "&migrate=1"


@contextmanager
def started(command: list[str], store: str) -> Iterator[subprocess.Popen[str]]:
    """A process of an example, which ends by SIGTERM, and well."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=EXAMPLES,
        env={**os.environ, "BEE_URL": store},
    )
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=PATIENCE)
        assert 0 == process.returncode, output
    finally:
        process.kill()
        process.communicate()


def worker(name: str) -> list[str]:
    return [sys.executable, "-W", "error", "-m", "bee_core.cli", "worker", f"{name}:hive"]


@contextmanager
def flask_service(store: str, *options: str) -> Iterator[Service]:
    port = free_port()
    command = [sys.executable, "-W", "error", "-m", "gunicorn", "flask_app:app"]
    with started([*command, "--bind", f"127.0.0.1:{port}", *options], store) as process:
        service = Service(process, port, store)

        def answers() -> bool:
            assert process.poll() is None, process.communicate()[0]
            try:
                return service.ask("/healthz")[0] == 200
            except OSError:
                return False

        until(answers)
        yield service


@pytest.mark.parametrize(
    "options", [[], ["--preload", "--workers", "2"], ["--threads", "4", "--workers", "2"]]
)
def test_a_flask_service_sends_and_a_worker_elsewhere_runs(store: str, options: list[str]) -> None:
    with flask_service(store, *options) as service:
        ids = [service.order(pages=1) for _ in range(6)]
        assert (404, {"detail": "not yet"}) == service.ask(f"/reports/{ids[0]}")
        assert (404, {"detail": "no such report"}) == service.ask("/reports/nobody-s")
        assert (200, {"waiting": 6, "running": 0, "workers": 0}) == service.ask("/healthz")

        with started(worker("flask_app"), store):
            for id in ids:
                done = service.ask(f"/reports/{id}?wait=20")
                assert (200, {"report": "1 pages for ada"}) == done


def test_a_flask_service_says_that_its_store_does_not_answer() -> None:
    with flask_service_of_nothing() as service:
        status, body = service.ask("/healthz")

        assert 503 == status
        assert "cannot reach the server" in body["detail"]


@contextmanager
def flask_service_of_nothing() -> Iterator[Service]:
    port = free_port()
    command = [sys.executable, "-m", "gunicorn", "flask_app:app", "--bind", f"127.0.0.1:{port}"]
    with started(command, f"redis://127.0.0.1:{free_port()}") as process:
        service = Service(process, port, "")

        def answers() -> bool:
            try:
                return service.ask("/healthz")[0] == 503
            except OSError:
                return False

        until(answers)
        yield service


def test_a_script_sends_and_waits_for_what_a_worker_elsewhere_finds(
    store: str, tmp_path: Path
) -> None:
    (tmp_path / "long.txt").write_text("one two three four")
    (tmp_path / "short.txt").write_text("one")
    paths = [str(tmp_path / name) for name in ("long.txt", "missing.txt", "short.txt")]
    with started(worker("script"), store):
        run = subprocess.run(
            [sys.executable, "-W", "error", "script.py", *paths],
            capture_output=True,
            text=True,
            timeout=60,
            cwd=EXAMPLES,
            env={**os.environ, "BEE_URL": store},
            check=False,
        )

    assert ("", 0) == (run.stderr, run.returncode)
    long, missing, short = run.stdout.splitlines()
    assert f"{paths[0]}: 4 words" == long
    assert f"{paths[1]}: FileNotFoundError" in missing
    assert f"{paths[2]}: 1 words" == short


@pytest.mark.parametrize(("name", "page"), [("flask_app", "flask"), ("script", "sync")])
def test_the_page_shows_the_example(name: str, page: str) -> None:
    path = ROOT / "docs" / "howto" / f"{page}.md"
    (shown, *_) = [block.text for block in blocks(path) if block.language == "python"]
    source = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")

    assert source.split('"""\n', 1)[1].strip() == shown.strip()
