"""What a broker may have besides its verbs: when that may be used in their place."""

from __future__ import annotations


def belongs_to(broker: object, extra: str, verb: str) -> bool:
    """Whether `extra` does what this broker's `verb` does.

    Not if the verb was changed by a class that has left the other as it was, nor if the broker only
    passes on what it does not know: the verb would be passed by.
    """
    for kind in type(broker).__mro__:
        if extra in vars(kind):
            return True
        if verb in vars(kind):
            return False
    return False
