"""The scripts: a file per verb, and in front of it what it shares with others."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib import resources
from typing import NamedTuple

from bee_core.checks import check_queue
from bee_redis import keys
from bee_redis.resp import Part, as_bytes, pack, pack_parts

FILES = resources.files("bee_redis") / "lua"
SHARED = {
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
ALONE = {"send_one": ("ready", "msg", "meta", "head", "bell")}
"""What has nothing in front of it, and takes only these keys: all would cost more than it does."""


class Keys(NamedTuple):
    """Keys of a queue: each, and all of them with their number as a command has them."""

    names: tuple[bytes, ...]
    packed: bytes


class Script:
    """A script's text and the name the server knows it by."""

    def __init__(self, verb: str) -> None:
        shebang, _, body = _read(verb).partition("\n")
        shared = [_read(part) for part, verbs in SHARED.items() if verbs is None or verb in verbs]
        if verb in ALONE:
            shared = []
        self.verb = verb
        self.text = "\n".join([shebang, *shared, body]).encode()
        self.sha = hashlib.sha1(self.text, usedforsecurity=False).hexdigest().encode()

    def by_name(self, keys: Keys, arguments: tuple[Part, ...]) -> bytes:
        """The command that runs it."""
        count = 3 + len(keys.names) + len(arguments)
        parts = [b"*%d\r\n$7\r\nEVALSHA\r\n$40\r\n%b\r\n%b" % (count, self.sha, keys.packed)]
        for argument in arguments:
            part = argument if type(argument) is bytes else as_bytes(argument)
            parts.append(b"$%d\r\n%b\r\n" % (len(part), part))
        return b"".join(parts)

    def by_text(self, keys: Keys, arguments: tuple[Part, ...]) -> bytes:
        """The command that runs it on a server that does not know it yet."""
        return pack(b"EVAL", self.text, len(keys.names), *keys.names, *arguments)


def _read(name: str) -> str:
    return (FILES / f"{name}.lua").read_text("utf-8")


VERBS = (
    "send",
    "send_one",
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


@lru_cache(maxsize=4096)
def keys_for(verb: str, prefix: str, queue: str) -> Keys:
    """The keys of a queue that a script takes. Raises InvalidName."""
    found = dict(zip(keys.KINDS, keys.keys(prefix, check_queue(queue)), strict=True))
    names = tuple(found[kind] for kind in ALONE.get(verb, keys.KINDS))
    return Keys(names, pack_parts((len(names), *names)))
