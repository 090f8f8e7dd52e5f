"""Access to an operator's pages, and protection of forms against other sites."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from stream_dp.errors import UserError
from stream_dp.privacy.noise import system_entropy

from .addresses import is_loopback

COOKIE = "stream-dp-operator"
_SHORTEST = 16  # characters of a token


@dataclass(frozen=True)
class Access:
    """The credentials required of a client.

    token: a secret that clients send once; None if no token is required.
    proxy_header: the header in which a proxy names an authenticated user; None without a proxy.
    """

    token: str | None
    proxy_header: str | None
    _key: bytes = field(default_factory=lambda: system_entropy(32), repr=False)

    def user(self, headers: Mapping[str, str], cookies: Mapping[str, str]) -> str | None:
        """The name of the requesting user, for the log of acts; None for a stranger.

        On the loopback without a token, the request must name a loopback host. Otherwise a page of
        another site whose name resolves to this address could read the response.
        """
        if self.proxy_header is not None:
            return headers.get(self.proxy_header) or None
        if self.token is None:
            return "operator" if names_loopback(headers.get("host", "")) else None
        token = headers.get("authorization", "").removeprefix("Bearer ")
        session = cookies.get(COOKIE, "")
        return "operator" if self.is_token(token) or _equal(session, self.session) else None

    def is_token(self, candidate: str) -> bool:
        return self.token is not None and _equal(candidate, self.token)

    @property
    def session(self) -> str:
        """The cookie of a client that has sent the token."""
        return self._signed("session")

    def form_key(self, user: str) -> str:
        """The secret hidden field of a user's forms, unknown to other sites."""
        return self._signed(f"form {user}")

    def is_valid_form(
        self, user: str, fields: Mapping[str, str], headers: Mapping[str, str]
    ) -> bool:
        """Whether a form has the hidden field and comes from a page of this monitor."""
        origin, host = headers.get("origin"), headers.get("host", "")
        same = origin is None or origin.partition("://")[2] == host
        site = headers.get("sec-fetch-site", "same-origin") == "same-origin"
        return same and site and _equal(fields.get("key", ""), self.form_key(user))

    def _signed(self, purpose: str) -> str:
        return hmac.new(self._key, purpose.encode(), hashlib.sha256).hexdigest()


def _equal(text: str, expected: str) -> bool:
    """Compares two texts in constant time."""
    return hmac.compare_digest(text.encode("utf-8", "replace"), expected.encode())


def names_loopback(address: str) -> bool:
    """Whether HOST:PORT names a loopback host; False for an invalid address."""
    try:
        host = urlsplit(f"//{address}").hostname
    except ValueError:
        return False
    return host is not None and is_loopback(host)


def access_for(host: str, token: str | None, proxy_header: str | None) -> Access:
    """The access rule of a listener. Raises UserError if strangers would have access."""
    if token is not None and len(token) < _SHORTEST:
        raise UserError(f"--token-file: the token has less than {_SHORTEST} characters")
    if token is None and proxy_header is None and not is_loopback(host):
        raise UserError(
            f"monitor: '{host}' is reached by others than this machine; give --token-file, or"
            " --proxy-header where a proxy lets operators in"
        )
    return Access(token, None if proxy_header is None else proxy_header.lower())
