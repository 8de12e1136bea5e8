"""Ids as they are stored: those that bee makes in 16 bytes, any other as its text.

The first byte of a UUIDv7 is a control character until the year 3084. The text of an id never
begins with one, so the two cannot be mistaken for each other.
"""

from __future__ import annotations

from bee_core.text import readable

_TEXT, _PACKED = 36, 16
_FIRST_DASH, _BETWEEN_DASHES = 8, 5
_MOST = 4096
_unpacked: dict[str, bytes] = {}
"""Some that were unpacked: what is leased is settled soon, and would have to be packed again."""


def pack_id(id: str) -> bytes:
    """An id as it is stored. Only what `unpack_id` gives back letter by letter is packed.

    An id that cannot be is not an error: it becomes what no id is stored as.
    """
    if (known := _unpacked.pop(id, None)) is not None:
        return known
    if len(id) == _TEXT and id[_FIRST_DASH::_BETWEEN_DASHES][:4] == "----" and id.islower():
        try:
            packed = bytes.fromhex(id.replace("-", ""))
        except ValueError:
            packed = b""
        if len(packed) == _PACKED and 0 < packed[0] < 32:  # else it has blanks, or more dashes
            return packed
    text = id.encode("utf-8", "surrogatepass")
    return text if id >= " " else b"\0" + text


def unpack_id(packed: bytes) -> str:
    """The id that is stored so."""
    if len(packed) != _PACKED or packed[0] >= 32:
        return readable(packed)
    hex = packed.hex("-", 2)
    id = f"{hex[:4]}{hex[5:29]}{hex[30:34]}{hex[35:]}"
    if len(_unpacked) >= _MOST:  # nobody has settled them here
        _unpacked.clear()
    _unpacked[id] = packed
    return id
