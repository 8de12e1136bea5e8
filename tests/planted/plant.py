"""Brokers with a bug in them. No file is touched: the altered text is in memory, or in the store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from bee_pg import migrate, records
from bee_redis import scripts
from tests.planted.bug import ROOT, Bug


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
        changed = [verb for verb, one in genuine.items() if scripts.SCRIPTS[verb].text != one.text]
        assert changed, f"no script has {bug.file}"
        yield
    finally:
        scripts._read = genuine_read
        scripts.SCRIPTS.update(genuine)


@contextmanager
def planted_in_sql(bug: Bug) -> Iterator[None]:
    """A schema that is made as long as this lasts has the bug, or a broker that is."""
    good, bad = (ROOT / bug.file).read_text("utf-8"), bug.altered()
    functions, read = migrate.functions(), records.read_statement
    is_a_function = good in functions
    assert is_a_function or bug.file.startswith("bee_pg/statements/"), f"no function has {bug.file}"
    with (
        patch.object(migrate, "functions", lambda: functions.replace(good, bad)),
        patch.object(records, "read_statement", lambda name: read(name).replace(good, bad)),
    ):
        yield
