"""Where settings come from: arguments, then BEE_URL, then a file, then defaults."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

from bee_core.errors import InvalidOption

DEFAULT_URL = "memory://"


def broker_url(given: str | None = None, *, directory: Path | None = None) -> str:
    """The broker's URL: as given, else BEE_URL, else `url` in bee.toml or [tool.bee]."""
    if given is not None:
        return given
    if url := os.environ.get("BEE_URL"):
        return url
    here = directory or Path.cwd()
    found = _table(_read(here / "bee.toml"))
    if not found:
        found = _table(_table(_read(here / "pyproject.toml").get("tool")).get("bee"))
    if unknown := sorted(found.keys() - {"url"}):
        raise InvalidOption(f"unknown setting: {', '.join(unknown)} (bee knows: url)")
    setting = found.get("url", DEFAULT_URL)
    if not isinstance(setting, str):
        raise InvalidOption(
            f"url in bee.toml or [tool.bee] must be a string, not {type(setting).__name__}"
        )
    return setting


def _table(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _read(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise InvalidOption(f"cannot read {path.name}: {error}") from error
