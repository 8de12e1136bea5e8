"""The scripts: a file per verb, `lib.lua` in front of each, other parts where they are needed."""

from __future__ import annotations

import hashlib
from importlib import resources

FILES = resources.files("bee_redis") / "lua"
PARTS = {
    "archive.lua": {"settle", "cancel", "get", "scan", "restore", "prune"},
    "turns.lua": {"lease"},
}
"""What is put behind `lib.lua`, in front of which verbs."""


class Script:
    """A script's text and the name the server knows it by."""

    def __init__(self, verb: str) -> None:
        shebang, _, body = (FILES / f"{verb}.lua").read_text("utf-8").partition("\n")
        library = (FILES / "lib.lua").read_text("utf-8")
        for part, verbs in PARTS.items():
            if verb in verbs:
                library += (FILES / part).read_text("utf-8")
        self.verb = verb
        self.text = f"{shebang}\n{library}\n{body}".encode()
        self.sha = hashlib.sha1(self.text, usedforsecurity=False).hexdigest().encode()


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
    "workers",
    "list",
)
SCRIPTS = {verb: Script(verb) for verb in VERBS}
