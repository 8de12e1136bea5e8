"""Replies come in pieces of any size, and commands go out as the server reads them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.exceptions import InvalidResponse, MovedError, NoScriptError, ResponseError

from bee_redis.resp import Replies, pack

Coded = tuple[bytes, Any]
"""A reply on the wire, and what it says."""

LINES = st.binary(max_size=20).filter(lambda line: b"\r\n" not in line and b"\r" != line[-1:])
NUMBERS = st.integers(-(2**63), 2**63 - 1)
LEAVES: st.SearchStrategy[Coded] = st.one_of(
    LINES.map(lambda line: (b"+%b\r\n" % line, line)),
    NUMBERS.map(lambda number: (b":%d\r\n" % number, number)),
    NUMBERS.map(lambda number: (b"(%d\r\n" % number, number)),
    st.binary(max_size=60).map(lambda text: (b"$%d\r\n%b\r\n" % (len(text), text), text)),
    st.binary(max_size=60).map(lambda text: (b"=%d\r\ntxt:%b\r\n" % (len(text) + 4, text), text)),
    st.sampled_from([b"$-1\r\n", b"*-1\r\n", b"_\r\n"]).map(lambda coded: (coded, None)),
    st.booleans().map(lambda flag: (b"#t\r\n" if flag else b"#f\r\n", flag)),
    st.floats(allow_nan=False).map(lambda x: (b",%b\r\n" % repr(x).encode(), x)),
)
PUSHED = b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nx\r\n"
DESCRIBED = b"|1\r\n+ttl\r\n:3600\r\n"


def listed(replies: list[Coded]) -> Coded:
    coded = b"".join(coded for coded, _ in replies)
    return b"*%d\r\n%b" % (len(replies), coded), [reply for _, reply in replies]


def as_set(replies: list[Coded]) -> Coded:
    coded, values = listed(replies)
    return b"~" + coded[1:], values


def as_map(replies: list[Coded]) -> Coded:
    """A map is its entries one after the other, as the older protocol has it."""
    pairs = replies[: len(replies) // 2 * 2]
    coded, values = listed(pairs)
    return b"%%%d\r\n%b" % (len(pairs) // 2, coded.partition(b"\r\n")[2]), values


def described(reply: Coded) -> Coded:
    return DESCRIBED + reply[0], reply[1]


REPLIES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5).map(listed),
        st.lists(inner, max_size=5).map(as_set),
        st.lists(inner, max_size=6).map(as_map),
        inner.map(described),
    ),
    max_leaves=20,
)


@given(st.lists(REPLIES, max_size=5), st.lists(st.integers(0, 400), max_size=30), st.booleans())
def test_replies_are_the_same_however_they_are_cut(
    replies: list[Coded], cuts: list[int], interrupted: bool
) -> None:
    stream = (PUSHED if interrupted else b"").join(coded for coded, _ in replies)
    places = sorted({min(cut, len(stream)) for cut in cuts} | {0, len(stream)})
    reader, found = Replies(), []

    for start, end in pairwise(places):
        found += reader.feed(stream[start:end])

    assert [reply for _, reply in replies] == found


@given(REPLIES)
def test_a_reply_is_there_with_its_last_byte_and_not_before(reply: Coded) -> None:
    coded, value = reply
    reader = Replies()

    assert [[]] * (len(coded) - 1) == [reader.feed(coded[n : n + 1]) for n in range(len(coded) - 1)]
    assert [value] == reader.feed(coded[-1:])


def test_a_large_reply_in_many_pieces_is_put_together_once() -> None:
    body = b"x" * 50_000_000
    coded = b"$%d\r\n%b\r\n" % (len(body), body)
    reader, found = Replies(), []

    for start in range(0, len(coded), 65536):  # would take minutes if each copied all before it
        found += reader.feed(coded[start : start + 65536])

    assert [body] == found


@pytest.mark.parametrize(
    ("coded", "kind", "text"),
    [
        (b"-ERR unknown command\r\n", ResponseError, "unknown command"),
        (b"-NOSCRIPT No matching script.\r\n", NoScriptError, "No matching script."),
        (b"-MOVED 5 127.0.0.1:7000\r\n", MovedError, "5 127.0.0.1:7000"),
        (b"!8\r\nERR a\r\nb\r\n", ResponseError, "a\r\nb"),
        (b"-\xff\r\n", ResponseError, "\ufffd"),
    ],
)
def test_errors_are_the_client_librarys(coded: bytes, kind: type[Exception], text: str) -> None:
    (error,) = Replies().feed(coded)
    assert kind is type(error)
    assert text == str(error)


def test_an_error_in_a_list_is_no_error_of_the_list() -> None:
    (found,) = Replies().feed(b"*2\r\n:1\r\n-ERR no\r\n")
    assert 1 == found[0]
    assert isinstance(found[1], ResponseError)


@pytest.mark.parametrize("noise", [b"HTTP/1.1 400\r\n", b"$x\r\n", b"*\r\n", b":1.5\r\n", b"\r\n"])
def test_what_is_no_reply_is_said_to_be_none(noise: bytes) -> None:
    with pytest.raises(InvalidResponse):
        Replies().feed(noise)


def test_a_command_is_a_list_of_bytes() -> None:
    packed = pack(b"EVALSHA", "é", 14, -3, 0.5, b"a\r\n")

    assert (
        b"*6\r\n$7\r\nEVALSHA\r\n$2\r\n\xc3\xa9\r\n$2\r\n14\r\n$2\r\n-3\r\n$3\r\n0.5\r\n" in packed
    )
    assert [[b"EVALSHA", "é".encode(), b"14", b"-3", b"0.5", b"a\r\n"]] == Replies().feed(packed)
