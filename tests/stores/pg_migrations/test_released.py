"""A migration that was released never changes: databases out there have run it."""

from __future__ import annotations

import hashlib
from importlib.resources import files

from bee_pg import migrate

# The file, and the sha256 of its bytes. Before the first release of bee-jobs these may be updated.
# After it, never: what is to change becomes a new file, and a new line.
RELEASED = {
    "0001_tables.sql": "31faa55f3777989bf9a371cb5c2a8a93a3ce5f1bfe8db3ec267f2127f0df8db4",
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
