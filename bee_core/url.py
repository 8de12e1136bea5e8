"""Broker URLs: taken apart once, passwords never shown."""

from __future__ import annotations

from urllib.parse import parse_qsl, unquote, urlsplit

from bee_core.duration import seconds
from bee_core.errors import InvalidOption

_FLAGS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


class Secret(str):
    """Text like any other, but for its repr, which is what logs and tracebacks show."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


class UrlText(str):
    """A URL like any other text, but for its repr, which is without its password."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(redact(self))


def as_url(given: str) -> UrlText:
    """What was given as a URL, from now on without its password in any repr."""
    if not isinstance(given, str):
        raise InvalidOption(f"a broker URL is text, not {type(given).__name__}")
    return UrlText(given)


class Url:
    """A broker URL whose parameters are taken one by one; what nobody took is an error."""

    def __init__(self, text: str) -> None:
        self.text = text = as_url(text)
        try:
            self.parts = urlsplit(text)
        except ValueError:  # its text may hold the password
            raise InvalidOption(f"not a broker URL: {redact(text)}") from None
        self.scheme = self.parts.scheme
        self._parameters: dict[str, str] = {}
        for name, value in parse_qsl(self.parts.query, keep_blank_values=True):
            if name in self._parameters:
                value = Secret(value)
                raise InvalidOption(f"the parameter {name} is given twice: {redact(text)}")
            self._parameters[name] = Secret(value) if _is_secret(name) else value
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
        if not text.isascii() or not text.isdigit() or len(text) > 18 or int(text) < least:
            raise InvalidOption(f"URL parameter {name} must be a whole number from {least}")
        return int(text)

    def number(self, name: str, *, least: float = 0.0) -> float | None:
        """Take a parameter as seconds."""
        text = self.string(name)
        if text is None:
            return None
        try:
            return seconds(float(text), f"URL parameter {name}", least=least)
        except ValueError:
            raise InvalidOption(f"URL parameter {name} must be a number of seconds") from None

    def flag(self, name: str) -> bool | None:
        """Take a parameter as yes or no."""
        text = self.string(name)
        if text is None:
            return None
        if text.lower() not in _FLAGS:
            raise InvalidOption(f"URL parameter {name} must be 1 or 0")
        return _FLAGS[text.lower()]

    def without(self, *names: str) -> str:
        """The URL without these parameters; for a driver that reads the others itself."""
        kept = [pair for pair in self.parts.query.split("&") if pair.split("=")[0] not in names]
        bare = self.parts._replace(query="&".join(kept)).geturl()
        if self.parts.netloc:
            return bare
        # Some Pythons drop the slashes in front of a host that is left out.
        begin = f"{self.scheme}:"
        return f"{begin}//{bare.removeprefix(begin).removeprefix('//')}"

    def finish(self) -> None:
        """Raise if a parameter was left over."""
        if self._parameters:
            unknown = ", ".join(sorted(self._parameters))
            known = ", ".join(sorted(self._known)) or "none"
            raise InvalidOption(f"unknown URL parameter: {unknown} ({self.scheme} knows: {known})")

    def __repr__(self) -> str:
        return f"Url({redact(self.text)!r})"


def redact(url: str) -> str:
    """The URL as it may be shown: without its password, wherever that stands.

    One of an odd shape is cut down to what certainly is no password.
    """
    scheme, separator, _ = url.partition("://")
    try:
        parts = urlsplit(url)
        odd = "@" in parts.path + parts.query + parts.fragment
    except ValueError:
        odd = True
    if odd or not separator:
        return f"{scheme}://***" if separator else "***"
    user, at, host = parts.netloc.rpartition("@")
    if ":" in user:
        user = f"{user.partition(':')[0]}:***"
    query = "&".join(_hide(pair) for pair in parts.query.split("&"))
    fragment = f"#{parts.fragment}" if parts.fragment else ""
    rest = parts.path + (f"?{query}" if query else "") + fragment
    return f"{scheme}://{user}{at}{host}{rest}"


def _hide(pair: str) -> str:
    name, equals, _ = pair.partition("=")
    return f"{name}{equals}***" if equals and _is_secret(name) else pair


def _is_secret(name: str) -> bool:
    return any(word in name.lower() for word in ("password", "secret", "token", "key"))
