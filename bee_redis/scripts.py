"""The scripts: a file per verb, and in front of it what it shares with others."""

from __future__ import annotations

import hashlib
from importlib import resources

FILES = resources.files("bee_redis") / "lua"
SHARED = {
    "send_one": {"send"},
    "layout": None,
    "send_usual": {"send"},
    "lease_usual": {"lease"},
    "settle_usual": {"settle"},
    "lib": None,
    "history": {"lease", "extend", "settle", "cancel", "restore"},
    "archive": {"settle", "cancel", "get", "scan", "restore", "prune", "adopt", "expel"},
    "turns": {"lease"},
}
"""What stands in front of a verb, in this order: of every one (None), or of some."""


class Script:
    """A script's text and the name the server knows it by."""

    def __init__(self, verb: str) -> None:
        shebang, _, body = _read(verb).partition("\n")
        shared = [_read(part) for part, verbs in SHARED.items() if verbs is None or verb in verbs]
        self.verb = verb
        self.text = "\n".join([shebang, *shared, body]).encode()
        self.sha = hashlib.sha1(self.text, usedforsecurity=False).hexdigest().encode()


def _read(name: str) -> str:
    return (FILES / f"{name}.lua").read_text("utf-8")


VERBS = (
    "send",
    "lease",
    "extend",
    "settle",
    "cancel",
    "results",
    "reports",
    "stats",
    "get",
    "scan",
    "blocked",
    "restore",
    "prune",
    "purge",
    "drop",
    "pause",
    "resume",
    "adopt",
    "expel",
    "announce",
    "workers",
    "list",
    "mark",
)
SCRIPTS = {verb: Script(verb) for verb in VERBS}
