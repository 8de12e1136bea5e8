"""A library meets a schema of another version, or none, and says what to do about it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

import bee_core as bee
from bee_core.config import broker_url
from bee_pg import PgBroker, migrate
from tests.servers import PgServer

from .support import ODD_NAMES, apply, apply_now, ask, installed, one_more


async def use(url: str, **options: object) -> None:
    """Use a broker for the first time."""
    async with PgBroker(url, **options) as broker:  # type: ignore[arg-type]
        await broker.queues()


def complaint(url: str, **options: object) -> str:
    """What a broker says that finds no schema."""
    with pytest.raises(bee.SchemaMissing) as caught:
        asyncio.run(use(url, **options))
    return str(caught.value)


def run_as_printed(text: str, directory: Path, **environment: str) -> None:
    """Paste what stands behind `run: ` into a shell."""
    bin = Path(sys.executable).parent
    inherited = {name: value for name, value in os.environ.items() if name != "BEE_URL"}
    path = f"{bin}:{os.environ['PATH']}"
    run = subprocess.run(
        ["bash", "-euc", text.partition("run: ")[2]],
        env=inherited | {"PATH": path} | environment,
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert 0 == run.returncode, run.stderr


def test_the_command_it_prints_works(pg: PgServer, tmp_path: Path) -> None:
    url = pg.database()

    text = complaint(url)
    run_as_printed(text, tmp_path)

    assert "no schema 'bee'" in text
    assert "migrate=True" in text
    asyncio.run(use(url))


@pytest.mark.parametrize("schema", ODD_NAMES)
def test_it_works_for_a_schema_of_any_name(pg: PgServer, tmp_path: Path, schema: str) -> None:
    url = pg.database()

    run_as_printed(complaint(url, schema=schema), tmp_path)

    asyncio.run(use(url, schema=schema))


def test_the_password_is_not_in_it_and_yet_it_works(pg: PgServer, tmp_path: Path) -> None:
    url = pg.database().replace("postgres@", "postgres:s3cr3t@")

    text = complaint(url, schema="jobs")
    run_as_printed(text, tmp_path, BEE_URL=url)

    assert "s3cr3t" not in text
    assert "BEE_URL set to postgresql://postgres:***@" in text
    asyncio.run(use(url, schema="jobs"))


def test_the_password_may_also_stand_in_the_file_of_settings(pg: PgServer, tmp_path: Path) -> None:
    url = pg.database().replace("postgres@", "postgres:s3cr3t@")
    (tmp_path / "bee.toml").write_text(f'url = "{url}"\n')

    run_as_printed(complaint(broker_url(directory=tmp_path)), tmp_path)

    asyncio.run(use(url))


async def test_an_older_library_refuses_a_newer_schema(pg: PgServer) -> None:
    url = pg.database()
    await apply(url)
    ask(url, "insert into bee.version (number, functions) values (999, 'new')")

    for migrating in (False, True):
        with pytest.raises(bee.SchemaMismatch, match=r"at version 999.*upgrade bee-jobs"):
            await use(url, migrate=migrating)
    with pytest.raises(bee.SchemaMismatch, match="upgrade bee-jobs"):
        await apply(url)

    assert migrate.Installed(999, "new") == await installed(url)


async def test_a_newer_library_says_how_to_upgrade_an_older_schema(
    pg: PgServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = pg.database()
    await apply(url)
    old = migrate.latest().version
    one_more(monkeypatch)

    with pytest.raises(bee.SchemaMismatch) as caught:
        await use(url)

    said = f"schema 'bee' is at version {old}; this bee needs {old + 1}. Run: bee db apply --url '"
    assert str(caught.value).startswith(said)
    await use(url, migrate=True)
    await use(url)


def test_a_schema_without_any_version_counts_as_none(pg: PgServer) -> None:
    url = pg.database()
    apply_now(url)
    ask(url, "truncate bee.version")

    assert "no schema 'bee'" in complaint(url)
