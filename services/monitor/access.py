"""Who may use an operator's pages, and that a form was sent from one of them."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from stream_dp.errors import UserError
from stream_dp.privacy.noise import system_entropy

from ..addresses import is_loopback

COOKIE = "stream-dp-operator"
_SHORTEST = 16  # characters of a token


@dataclass(frozen=True)
class Access:
    """What is asked of a client.

    token: a secret that it gives once; None where none is asked for.
    proxy_header: the header in which a proxy names whom it has let in; None where there is none.
    """

    token: str | None
    proxy_header: str | None
    _key: bytes = field(default_factory=lambda: system_entropy(32), repr=False)

    def who(self, headers: Mapping[str, str], cookies: Mapping[str, str]) -> str | None:
        """Who asks, for the log of acts; None for a stranger.

        On the loopback without a token, the page must have been asked for by a loopback name, or
        another site's name that leads here could read it.
        """
        if self.proxy_header is not None:
            return headers.get(self.proxy_header) or None
        if self.token is None:
            host = _host(headers.get("host", ""))
            return "operator" if host is not None and is_loopback(host) else None
        given = headers.get("authorization", "").removeprefix("Bearer ")
        session = cookies.get(COOKIE, "")
        return "operator" if self.is_token(given) or _same(session, self.session) else None

    def is_token(self, given: str) -> bool:
        return self.token is not None and _same(given, self.token)

    @property
    def session(self) -> str:
        """What the cookie of a client that gave the token holds."""
        return self._signed("session")

    def form_key(self, who: str) -> str:
        """A hidden field of every form, which other sites cannot know."""
        return self._signed(f"form {who}")

    def is_own_form(self, who: str, fields: Mapping[str, str], headers: Mapping[str, str]) -> bool:
        """Whether a form is one of ours, sent from one of our pages."""
        origin, host = headers.get("origin"), headers.get("host", "")
        same = origin is None or origin.partition("://")[2] == host
        site = headers.get("sec-fetch-site", "same-origin") == "same-origin"
        return same and site and _same(fields.get("key", ""), self.form_key(who))

    def _signed(self, what: str) -> str:
        return hmac.new(self._key, what.encode(), hashlib.sha256).hexdigest()


def _same(given: str, expected: str) -> bool:
    """Whether two texts are equal, in a time that does not tell where they differ."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


def _host(address: str) -> str | None:
    """The name in HOST:PORT; None where it is no such address."""
    try:
        return urlsplit(f"//{address}").hostname
    except ValueError:
        return None


def access_for(host: str, token: str | None, proxy_header: str | None) -> Access:
    """The rule for a listener. Raises UserError where strangers could reach it unasked."""
    if token is not None and len(token) < _SHORTEST:
        raise UserError(f"--token-file: the token has less than {_SHORTEST} characters")
    if token is None and proxy_header is None and not is_loopback(host):
        raise UserError(
            f"monitor: '{host}' is reached by others than this machine; give --token-file, or"
            " --proxy-header where a proxy lets operators in"
        )
    return Access(token, None if proxy_header is None else proxy_header.lower())
