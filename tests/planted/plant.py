"""Brokers with a bug in them. No file is touched: the altered text is in memory, or in the store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from bee_pg import migrate, records
from bee_redis import scripts
from tests.planted.bug import ROOT, Bug
from tests.planted.sql import SENT_AS_IT_IS


@contextmanager
def planted_in_lua(bug: Bug) -> Iterator[None]:
    """Every script is made with the bug, as long as this lasts."""
    genuine_read, genuine = scripts._read, dict(scripts.SCRIPTS)
    altered = bug.altered()

    def read(name: str) -> str:
        return altered if bug.file.endswith(f"/{name}.lua") else genuine_read(name)

    scripts._read = read
    try:
        scripts.SCRIPTS.update({verb: scripts.Script(verb) for verb in scripts.VERBS})
        assert scripts.SCRIPTS != genuine, f"no script has {bug.file}"
        yield
    finally:
        scripts._read = genuine_read
        scripts.SCRIPTS.update(genuine)


@contextmanager
def planted_in_sql(bug: Bug) -> Iterator[None]:
    """A schema that is made as long as this lasts has the bug, or a broker that is."""
    if bug is SENT_AS_IT_IS:
        with patch.object(records, "read_statement", lambda _: bug.altered()):
            yield
        return
    genuine = migrate.functions
    good = (ROOT / bug.file).read_text("utf-8")
    altered = genuine().replace(good, bug.altered())
    assert altered != genuine(), f"no function has {bug.file}"
    migrate.functions = lambda: altered  # type: ignore[assignment]
    try:
        yield
    finally:
        migrate.functions = genuine
