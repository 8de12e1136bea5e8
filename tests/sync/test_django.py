"""Under real Django: sync views, the ORM's transactions, and bee, over the same PostgreSQL."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, blocks
from tests.worker.support import new_store


@pytest.mark.parametrize("server", ["valkey", "pg"])
def test_what_is_not_committed_is_not_sent(server: str, request: pytest.FixtureRequest) -> None:
    database = request.getfixturevalue("pg").database()
    url = f"{database}&migrate=1" if server == "pg" else new_store(request, server)
    run = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.sync.django_shop"],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "DATABASE_URL": database, "BEE_URL": url},
        check=False,
    )
    assert ("", 0) == (run.stderr, run.returncode)
    told = json.loads(run.stdout)

    ways = ["then", "and"][: 1 + (server == "pg")]
    orders = []
    for way in ways:
        status, body = told[f"{way} 1"]
        assert 201 == status
        orders.append(body["order"])
        assert [402, {"detail": "not paid"}] == told[f"{way} 0"]
    assert len(ways) == told["waiting"]
    assert orders == sorted(told["confirmed"])


def test_the_page_shows_what_is_tested_here() -> None:
    tested = (Path(__file__).parent / "django_shop.py").read_text(encoding="utf-8")
    page = ROOT / "docs" / "howto" / "django.md"
    shown = [block.text for block in blocks(page) if "order_then_send" in block.text]

    assert len(shown) == 1
    for function in ("order_then_send", "order_and_send"):
        text = shown[0][shown[0].index(f"def {function}") :].split("\n\n\n")[0].strip()
        assert text in tested
