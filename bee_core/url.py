"""Broker URLs: taken apart once, passwords never shown."""

from __future__ import annotations

from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from bee_core.errors import InvalidOption


class Url:
    """A broker URL whose parameters are taken one by one; what nobody took is an error."""

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self.parts = urlsplit(text)
        except ValueError as error:
            raise InvalidOption(f"not a broker URL: {redact(text)} ({error})") from None
        self.scheme = self.parts.scheme
        self._parameters = dict(parse_qsl(self.parts.query, keep_blank_values=True))
        self._known: list[str] = []

    @property
    def rest(self) -> str:
        """What stands between the scheme and the parameters: host and path."""
        return unquote(self.parts.netloc + self.parts.path).strip("/")

    def string(self, name: str) -> str | None:
        """Take a parameter as it is."""
        self._known.append(name)
        return self._parameters.pop(name, None)

    def integer(self, name: str, *, least: int = 1) -> int | None:
        """Take a parameter as a whole number."""
        text = self.string(name)
        if text is None:
            return None
        if not text.isascii() or not text.isdigit() or int(text) < least:
            raise InvalidOption(f"URL parameter {name} must be a whole number from {least}")
        return int(text)

    def finish(self) -> None:
        """Raise if a parameter was left over."""
        if self._parameters:
            unknown = ", ".join(sorted(self._parameters))
            known = ", ".join(sorted(self._known)) or "none"
            raise InvalidOption(f"unknown URL parameter: {unknown} ({self.scheme} knows: {known})")

    def __repr__(self) -> str:
        return f"Url({redact(self.text)!r})"


def redact(url: str) -> str:
    """The URL as it may be shown: without its password."""
    try:
        parts = urlsplit(url)
        if parts.password is None:
            return url
        user = f"{parts.username}:***@" if parts.username else ":***@"
        host = parts.netloc.rpartition("@")[2]
        return urlunsplit(parts._replace(netloc=user + host))
    except ValueError:
        return url.partition("://")[0] + "://***"
