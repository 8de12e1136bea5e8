"""A migration that was released never changes: databases out there have run it."""

from __future__ import annotations

import hashlib
from importlib.resources import files

from bee_pg import migrate

# The file, and the sha256 of its bytes. Before the first release of bee-jobs these may be updated.
# After it, never: what is to change becomes a new file, and a new line.
RELEASED = {
    "0001_tables.sql": "2b704757e1558276e8f6942ad43e1d4c5e0fad59683bbb338946d747e2985ebd",
}


def test_no_migration_has_changed() -> None:
    found = {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in files("bee_pg").joinpath("migrations").iterdir()
        if file.is_file()
    }

    assert RELEASED == found


def test_migrations_are_numbered_from_one_without_a_gap() -> None:
    numbers = [migration.number for migration in migrate.migrations()]

    assert list(range(1, len(numbers) + 1)) == numbers
