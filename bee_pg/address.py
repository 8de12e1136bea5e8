"""Where a database is, and how to reach it: what a URL says to libpq, and what to bee."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from bee_core.errors import InvalidOption
from bee_core.url import Secret, as_url, redact

OWN = ("schema", "pool_size", "deadline", "migrate", "notify")
"""The parameters of a URL that are bee's; libpq knows the others."""


def parameters(url: str) -> dict[str, Any]:
    """What libpq makes of a URL."""
    url = as_url(url)
    try:
        found = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        text = str(error).strip().replace(url, redact(url))
        if "percent-encoded" in text:  # libpq quotes the piece, and that may be the password
            text = f"{text.partition(':')[0]} in {redact(url)}: write % in a password as %25"
        own = f"bee's own parameters: {', '.join(OWN)}; the others are libpq's"
        raise InvalidOption(f"{text} ({own})") from None
    if not str(found.get("port", "")).replace(",", "").isdigit() and "port" in found:
        found["port"] = Secret(found["port"])  # it may be a piece of the password
        raise InvalidOption(
            "the port of a PostgreSQL URL must be a number (write / @ : # in a password as %2F %40 "
            "%3A %23)"
        )
    for name in found.keys() & {"password", "sslpassword"}:
        found[name] = Secret(found[name])
    defaults = {"fallback_application_name": "bee", "target_session_attrs": "read-write"}
    return defaults | found
