"""Bodies that a worker may find in a queue: envelopes, what is left of them, what never was one.

`Bodies(seed)` yields the same ones, in the same order, each time.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from uuid import UUID

import bee_core as bee
from bee_core.codec import JsonCodec
from tests.core.shapes import TAGS, Anything, Colour, Everything, Measure, Rich, Tree
from tests.core.support import Resize, SendEmail

CODEC: JsonCodec[Everything] = JsonCodec(Everything)
LONGEST = 256 * 1024
"""Bytes that a queue takes unless it is told otherwise."""

JOBS: tuple[bee.Job, ...] = (
    SendEmail(to="ada@example.org", subject="hi \N{HONEYBEE}"),
    SendEmail(to="\0\x7f\u2028"),
    Resize(path="x.png", width=2**63),
    Resize(path="", width=-(10**40)),
    Anything(value=[1, 2.5, None, True, {"a": {"b": ["c"]}}], extras={"": [], "x": {}}),
    Tree("root", [Tree("left"), Tree("right", [Tree("leaf")])]),
    Measure(0.1, None, [1e300, -0.0], {"a": 1.5}, {2.5: "b"}),
    Rich(
        datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        date(2026, 1, 2),
        timedelta(days=1.5),
        UUID(int=7),
        Decimal("12.50"),
        b"\x00\xff",
        Colour.RED,
        (1, "x"),
        frozenset({"a"}),
    ),
)
ENVELOPES = tuple(CODEC.encode(job) for job in JOBS)  # type: ignore[arg-type]

WORDS = (
    *(b'"%s"' % tag.encode() for tag in TAGS),
    *(b"{ } [ ] , : null true false -0 0 1 -1 1e999 -1e999 1e-999 NaN Infinity -Infinity".split()),
    *(b'"v" "job" "type" "value" "" "\\ud800" "\\u0000" "\xff" "\xc0\xaf" "\xed\xa0\x80"'.split()),
    *(b"9223372036854775808 18446744073709551616 0.1e1 01 1. .5 +1 0x10 1_000".split()),
    *(b"\xef\xbb\xbf \x00 \\ ' // /*".split()),
    b" ",
    b"\n" * 9,
)
TEXTS = (
    "",
    "a",
    "\0",
    "\ud800",
    "\N{HONEYBEE}",
    "\u202e",
    "type",
    "x" * 300,
    "'; drop table --",
    "{}",
)


class Bodies:
    """Hostile bodies without end."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        usual: list[Callable[[], bytes]] = [self._damaged] * 8
        usual += [self._worded] * 5 + [self._spliced] * 2 + [self._json] * 3 + [self._shaped] * 4
        usual += [self._noise] * 2 + [self._doubled, self._number, self._not_text]
        self._kinds = usual * 20 + [self._deep, self._long, self._packed]

    def __iter__(self) -> Iterator[bytes]:
        while True:
            yield self.chance.choice(self._kinds)()[:LONGEST]

    def _envelope(self) -> bytes:
        return self.chance.choice(ENVELOPES)

    def _damaged(self) -> bytes:
        """An envelope with some bytes changed, cut out, put in or doubled."""
        chance, body = self.chance, bytearray(self._envelope())
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(body) + 1)
            match chance.randrange(5):
                case 0:
                    body[at : at + 1] = bytes([chance.randrange(256)])
                case 1:
                    del body[at : at + chance.randint(1, 8)]
                case 2:
                    body[at:at] = chance.randbytes(chance.randint(1, 4))
                case 3:
                    body[at:at] = body[at : at + 8]
                case _:
                    del body[at:]
        return bytes(body)

    def _worded(self) -> bytes:
        """An envelope with words of JSON, or of what is nearly that, in odd places."""
        chance, body = self.chance, self._envelope()
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(body) + 1)
            body = body[:at] + chance.choice(WORDS) + body[at + chance.randrange(6) :]
        return body

    def _spliced(self) -> bytes:
        """The beginning of one envelope and the end of another."""
        one, other = self._envelope(), self._envelope()
        return one[: self.chance.randrange(len(one))] + other[self.chance.randrange(len(other)) :]

    def _json(self) -> bytes:
        """JSON of any shape."""
        return json.dumps(self._value(4)).encode()

    def _shaped(self) -> bytes:
        """An envelope to look at: versions, tags and fields that may be wrong."""
        chance = self.chance
        fields = ("to", "subject", "path", "width", "value", "label", "children", "weights", "when")
        job: object = {chance.choice(fields): self._value(3) for _ in range(chance.randrange(4))}
        if isinstance(job, dict) and chance.random() < 0.9:
            tags: tuple[object, ...] = (*TAGS, *TEXTS, 1, None, [], {}, "Tree", "tree ")
            job["type"] = chance.choice(tags)
        envelope = {
            "v": chance.choice((1, 1, 1, 2, 0, -1, 10**30, 1.0, "1", None, True)),
            "job": job,
        }
        if chance.random() < 0.2:
            envelope[chance.choice(TEXTS)] = self._value(1)
        return json.dumps(envelope).encode()

    def _doubled(self) -> bytes:
        """Keys that are there twice."""
        once = self._envelope()[1:-1]
        again = self.chance.choice((once, b'"v":2', b'"job":null', b'"v":1,"job":{"type":"tree"}'))
        return b"{" + self.chance.choice((once + b"," + again, again + b"," + once)) + b"}"

    def _number(self) -> bytes:
        """Numbers that are too long to be any."""
        digits = b"9" * self.chance.choice((18, 19, 20, 308, 4299, 4300, 4301, 20_000))
        sign, rest = (
            self.chance.choice((b"", b"-")),
            self.chance.choice((b"", b".5", b"e99999", b"e")),
        )
        kind = self.chance.choice(
            (b'"resize.v2","width"', b'"anything","value"', b'"measure","value"')
        )
        return b'{"v":1,"job":{"type":' + kind + b":" + sign + digits + rest + b"}}"

    def _not_text(self) -> bytes:
        """Strings whose bytes are no UTF-8, or are no characters."""
        odd = (
            b"\xff",
            b"\xc3",
            b"\xed\xa0\x80",
            b"\xf5\x80\x80\x80",
            b"\\ud83d",
            b"\\udc00\\ud800",
        )
        text = b"".join(self.chance.choice((*odd, b"a", b"\\n")) for _ in range(4))
        return b'{"v":1,"job":{"type":"send_email","to":"' + text + b'"}}'

    def _noise(self) -> bytes:
        return self.chance.randbytes(self.chance.randrange(64))

    def _deep(self) -> bytes:
        """Nested deeper than anything is."""
        depth = self.chance.choice((64, 65, 900, 1100, 50_000, LONGEST))
        opening, closing = self.chance.choice(((b"[", b"]"), (b'{"a":', b"}"), (b"[[", b"")))
        inner = opening * (depth // len(opening)) + closing * depth
        kind = self.chance.choice((b'"anything","value"', b'"tree","children"', b'"none","x"'))
        return b'{"v":1,"job":{"type":' + kind + b":" + inner + b"}}"

    def _long(self) -> bytes:
        """As large as a body may be."""
        fill = self.chance.choice(
            (b'"x",', b"1,", b"[],", b'"\\u0041",', b"1e1,", b"[[[]]],", b" ")
        )
        end = self.chance.choice((b'""]}}', b"0]", b""))
        return b'{"v":1,"job":{"type":"anything","value":[' + fill * (LONGEST // len(fill)) + end

    def _packed(self) -> bytes:
        """What would be larger if anybody unpacked it."""
        return gzip.compress(self._envelope() * self.chance.choice((1, 100_000)))

    def _value(self, depth: int) -> object:
        chance = self.chance
        match chance.randrange(8 if depth else 6):
            case 0:
                return chance.choice((None, True, False))
            case 1:
                return chance.choice((0, -1, 1, 2**31, 2**63, -(2**64), 10**40))
            case 2:
                return chance.choice((0.0, -0.0, 1e300, 5e-324, float("nan"), float("inf")))
            case 3 | 4:
                return chance.choice(TEXTS)
            case 5:
                return chance.choice(([], {}))
            case 6:
                return [self._value(depth - 1) for _ in range(chance.randrange(3))]
            case _:
                return {chance.choice(TEXTS): self._value(depth - 1) for _ in range(2)}
