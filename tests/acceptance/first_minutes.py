"""Do what the README and the tutorial tell, as a stranger would, and say how long it took.

    python -m tests.acceptance.first_minutes [--store redis|pg] [PAGE]

Each page is done in a new, empty folder outside the repository, with an environment of its own that
pip fills from the wheel, on each store. Commands are typed as they are printed, but for two things:
where bee-jobs comes from (the wheel that was just built, instead of an index or a checkout), and
the URL of the store (a server that is started for it).
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.acceptance.page import Command, File, steps
from tests.acceptance.shell import Shell
from tests.acceptance.wheel import ROOT, build_wheel, plain_environment
from tests.servers import PgServer, RedisServer, valkey_binary

PAGES = {"README": ROOT / "README.md", "tutorial": ROOT / "docs" / "tutorial.md"}
STORES = ("redis", "pg")
REDIS, PG = "redis://localhost", "postgresql://localhost/app?migrate=1"
"""The stores as the pages name them."""
INSTALL = "python3 -m pip --python .venv install "


class Times(NamedTuple):
    """Commands and seconds from the first command on."""

    first_job: tuple[int, float]
    survived: tuple[int, float]
    """Until a job had ended well whose first worker was killed with -9."""
    all: tuple[int, float]


def follow(
    page: Path,
    folder: Path,
    store: str,
    *,
    environment: Mapping[str, str],
    installed: bool = False,
    told: Callable[[str], None] = lambda words: None,
) -> Times:
    """Do what a page says in an empty folder. With `installed`, without what it says of pip."""
    first, survived, killed = None, None, False
    with Shell(folder, environment) as shell:
        for step in steps(page):
            match step:
                case File(name, text):
                    (folder / name).write_text(text)
                case Command(words=words):
                    if installed and INSTALL in words:
                        continue
                    told(words)
                    shows = None if INSTALL in words else step.shows  # pip may warn of your indexes
                    seen = shell.type(step._replace(words=adapted(words, store), shows=shows))
                    now = (shell.commands, shell.seconds)
                    killed = killed or words.startswith("kill -9")
                    if first is None and words.endswith((".py", "bee demo")):
                        first = now
                    if killed and survived is None and "attempt 2" in seen:
                        survived = now
        assert first is not None, f"{page} runs no job"
        assert survived is not None, f"{page} survives no kill -9"
        return Times(first, survived, (shell.commands, shell.seconds))


def adapted(words: str, store: str) -> str:
    """A command with the store that is there, and with bee-jobs from where it is."""
    if words.startswith("export BEE_URL="):
        return f"export BEE_URL='{store}'"
    return words.replace(f"{INSTALL}-q -e .", f"{INSTALL}-q bee-jobs")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--store", choices=STORES)
    arguments.add_argument("page", nargs="?", choices=PAGES)
    asked = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="bee-wheel-") as place:
        wheel = build_wheel(Path(place))
        constraint = Path(place) / "constraint.txt"
        constraint.write_text(f"bee-jobs=={wheel.name.split('-')[1]}\n")
        environment = plain_environment() | {
            "PIP_CONSTRAINT": str(constraint),
            "PIP_FIND_LINKS": place,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }
        for store in STORES if asked.store is None else [asked.store]:
            for name in PAGES if asked.page is None else [asked.page]:
                _run(name, store, environment)


def _run(name: str, store: str, environment: Mapping[str, str]) -> None:
    print(f"--- {name}, on {store}")
    server: RedisServer | PgServer
    if store == "redis":
        server = RedisServer(valkey_binary())
        url = server.url
    else:
        server = PgServer(18)
        url = server.database() + "&migrate=1"
    try:
        with tempfile.TemporaryDirectory(prefix="bee-stranger-") as folder:
            times = follow(
                PAGES[name],
                Path(folder),
                url,
                environment=environment,
                told=lambda words: print(f"$ {words}"),
            )
    finally:
        server.stop()
    for what, (commands, seconds) in zip(
        ("first job", "first kill -9 survived", "the whole page"), times, strict=True
    ):
        print(f"{what}: {commands} commands, {seconds:.1f} s")


if __name__ == "__main__":
    main()
