"""Arguments are checked here, by one rule for every backend, before anything is done with them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from unicodedata import category

from bee_core.disposition import Archive, Delete, Terminal
from bee_core.duration import seconds
from bee_core.errors import InvalidName, InvalidOption, InvalidPayload
from bee_core.message import (
    KEEP,
    NO_HEADERS,
    PRIORITIES,
    Draft,
    Keep,
    Reject,
    Settlement,
    Throttle,
    Update,
)

_QUEUE_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,46}", re.ASCII)
_LONGEST_ID = 200
LONGEST_PROGRESS = 200
LONGEST_SUMMARY = 200
LONGEST_REMARK = 2000
LONGEST_ABOUT = 2000
MOST_HEADER_BYTES = 8 * 1024
MOST_AWAITED = 100_000


def check_queue(name: str) -> str:
    """The name, or InvalidName. One rule on every backend; a name is data, never an identifier."""
    if not is_queue(name):
        raise InvalidName(
            f"{name!r} is not a queue name: 1 to 47 of a-z 0-9 _ -, beginning with a letter or _"
        )
    return name


def is_queue(name: object) -> bool:
    """Whether a queue may be called so."""
    return isinstance(name, str) and _QUEUE_NAME.fullmatch(name) is not None


def check_id(id: str) -> str:
    """The id, or InvalidName. Any text without control characters that UTF-8 can hold."""
    return check_text(id, "job id")


def check_ids(ids: Sequence[str]) -> Sequence[str]:
    """The ids, or InvalidName for the first bad one."""
    for id in ids:
        check_id(id)
    return ids


def check_text(text: str, what: str, *, longest: int = _LONGEST_ID) -> str:
    """Text that an id could be, or an InvalidName that says what it was for."""
    if not isinstance(text, str) or not 0 < len(text) <= longest:
        raise InvalidName(f"{text!r:.100} is not a {what}: text of 1 to {longest} characters")
    if not text.isprintable() and any(category(c) in ("Cc", "Cs") for c in text):
        raise InvalidName(f"{text!r} is not a {what}: no control characters, no lone surrogates")
    return text


def check_whole(value: int, name: str, *, least: int) -> int:
    """The number, or an InvalidOption that names it and its range."""
    if type(value) is not int or value < least:
        raise InvalidOption(f"{name} must be a whole number from {least}, not {value!r}")
    return value


def check_draft(draft: Draft) -> Draft:
    """The draft, or an InvalidInput that says what is wrong with it."""
    id, delay = draft.id, draft.delay
    if type(id) is not str or not id.isprintable() or not 0 < len(id) <= _LONGEST_ID:
        check_text(id, "job id")
    if (type(delay) is not float or delay != 0.0) and seconds(delay, "delay") != delay:
        raise InvalidOption("delay must be seconds in a Draft, not a timedelta")
    if type(draft.priority) is not int or draft.priority not in PRIORITIES:
        raise InvalidOption(
            f"priority must be a whole number from {PRIORITIES[0]} to {PRIORITIES[-1]} "
            f"(higher first), not {draft.priority!r}"
        )
    if not isinstance(draft.body, bytes):
        raise InvalidOption(f"a body is bytes, not {type(draft.body).__name__}")
    if draft.if_taken is not KEEP and not isinstance(draft.if_taken, Keep | Reject | Update):
        raise InvalidOption(f"if_taken is Keep(), Reject() or Update(), not {draft.if_taken!r}")
    if draft.headers is not NO_HEADERS:
        check_headers(draft.headers)
    if draft.key is not None or draft.reports_to is not None or draft.awaits != 0:
        _check_ties(draft)
    return draft


def _check_ties(draft: Draft) -> None:
    """Raise an InvalidInput unless what ties it to other messages could be."""
    if draft.key is not None:
        check_text(draft.key, "key")
    if draft.reports_to is not None:
        check_text(draft.reports_to, "job id to report to")
    if draft.awaits != 0 and check_whole(draft.awaits, "awaits", least=0) > MOST_AWAITED:
        raise InvalidOption(f"awaits must be at most {MOST_AWAITED}, not {draft.awaits}")


def check_settlement(settlement: Settlement) -> None:
    """Raise an InvalidInput that says what is wrong with a settlement, if anything is."""
    for draft in settlement.then:
        check_draft(draft)
    if settlement.result and not isinstance(settlement.result, bytes):
        raise InvalidOption(f"a result is bytes, not {type(settlement.result).__name__}")
    if settlement.keep:
        seconds(settlement.keep, "keep")
    if settlement.summary:
        check_text(settlement.summary, "summary", longest=LONGEST_SUMMARY)


def check_headers(headers: Mapping[str, str]) -> None:
    """Raise InvalidPayload unless headers are text by text."""
    if not isinstance(headers, Mapping):
        raise InvalidPayload(f"headers must be a mapping, not {type(headers).__name__}")
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidPayload(f"header {name!r}: names and values must be strings")


def check_terminal(to: Terminal) -> Terminal:
    """Delete or Archive, or InvalidOption."""
    if not isinstance(to, Delete | Archive):
        raise InvalidOption(f"to is Delete() or Archive(), not {to!r}")
    return to


def check_holder(holder: str) -> str:
    """The name of who leases: any text that an id could be."""
    return check_text(holder, "holder's name")


def check_throttle(throttle: Throttle) -> Throttle:
    """The throttle, or InvalidOption."""
    if not isinstance(throttle, Throttle):
        raise InvalidOption(f"throttle takes a Throttle, not {throttle!r}")
    return throttle


def check_progress(progress: Mapping[str, str]) -> None:
    """Raise InvalidPayload unless what is said of progress is short text, by id."""
    for id, text in progress.items():
        check_said(text, f"progress of {check_id(id)!r}", LONGEST_PROGRESS)


def check_remarks(remarks: Mapping[str, str]) -> None:
    """Raise InvalidPayload unless remarks are text, by id."""
    for id, text in remarks.items():
        check_said(text, f"the remark on {check_id(id)!r}", LONGEST_REMARK)


def check_about(about: str) -> str:
    """What a holder says of itself, or InvalidPayload."""
    if about:
        check_said(about, "what a holder says of itself", LONGEST_ABOUT)
    return about


def check_said(text: str, what: str, longest: int) -> None:
    """Raise InvalidPayload unless it is text, not too long, that UTF-8 can hold."""
    if not isinstance(text, str) or not 0 < len(text) <= longest:
        raise InvalidPayload(f"{what} must be text of 1 to {longest} characters")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidPayload(f"{what} cannot be UTF-8: {error}") from error
