"""Access to listeners: addresses HOST:PORT, the hosts of requests, and locks of confidential pages.

Every user of a machine can connect to its loopback, so the loopback lets nobody in by itself: a
client needs a token or a cookie, and a form comes from a page of this listener.

A page of another site must not read a listener's answers. The name of another site can resolve to
the address of a listener (DNS rebinding). A browser then sends that name as `Host`, and gives the
answer to the site's page. An address in `Host`, or `localhost`, is no name of another site.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import socket
import threading
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from ipaddress import ip_address
from pathlib import Path

from stream_dp.errors import UserError
from stream_dp.privacy.noise import system_entropy

_SHORTEST = 16  # characters of a token


class Access:
    """The credentials required of a client.

    token: a secret that clients send. A session's cookie then takes the token's place.
    once: whether the token is of a printed link, and is worth nothing after its first use.
    proxy_header: the header in which a proxy, which sends the token, names an authenticated user;
        None without a proxy.
    """

    def __init__(self, token: str, *, once: bool = False, proxy_header: str | None = None) -> None:
        self._token, self.once, self._proxy_header = token, once, proxy_header
        self._fresh, self._lock = True, threading.Lock()
        self._key = system_entropy(32)
        # Servers at other ports of a host get the same cookies: each has a name of its own.
        self.cookie = f"stream-dp-{self._signed('name')[:16]}"

    def user(self, headers: Mapping[str, str], cookies: Mapping[str, str]) -> str | None:
        """The name of the requesting user, for the log of acts; None for a stranger."""
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        has_token = not self.once and _equal(bearer, self._token)
        if self._proxy_header is not None:
            return headers.get(self._proxy_header) or None if has_token else None
        has_session = _equal(cookies.get(self.cookie, ""), self._session)
        return "operator" if has_token or has_session else None

    def takes(self, token: str) -> bool:
        """Whether a client may have a session for a token. A token of a link is then spent."""
        if self._proxy_header is not None or not _equal(token, self._token):
            return False
        with self._lock:
            fresh, self._fresh = self._fresh, not self.once
            return fresh

    @property
    def link(self) -> str:
        """The path and query of the link that works once; empty if clients know the token."""
        return f"/?token={self._token}" if self.once else ""

    @property
    def is_behind_proxy(self) -> bool:
        return self._proxy_header is not None

    @property
    def set_cookie(self) -> str:
        """The header that begins a session."""
        return f"{self.cookie}={self._session}; HttpOnly; SameSite=Strict; Path=/"

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

    @property
    def _session(self) -> str:
        return self._signed("session")

    def _signed(self, purpose: str) -> str:
        return hmac.new(self._key, purpose.encode(), hashlib.sha256).hexdigest()


def _equal(text: str, expected: str) -> bool:
    """Compares two texts in constant time."""
    return hmac.compare_digest(text.encode("utf-8", "replace"), expected.encode())


def link_access() -> Access:
    """Access by a new link, which works once."""
    return Access(system_entropy(16).hex(), once=True)


def read_token(path: Path, option: str) -> str:
    """Reads a token from a file. option: names the file in messages. Raises UserError."""
    try:
        token = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise UserError(f"{option}: {path} cannot be read") from None
    if len(token) < _SHORTEST:
        raise UserError(f"{option}: the token in {path} has less than {_SHORTEST} characters")
    return token


def operator_access(host: str, token_file: Path | None, proxy_header: str | None) -> Access:
    """The access rule of an operator's monitor. Raises UserError for a door without a lock.

    host: where the monitor listens.
    """
    if token_file is not None:
        header = None if proxy_header is None else proxy_header.lower()
        return Access(read_token(token_file, "--token-file"), proxy_header=header)
    if proxy_header is not None:
        raise UserError(
            "--proxy-header: every user of this machine can send a header; give --token-file too,"
            " and let the proxy send that token as 'Authorization: Bearer TOKEN'"
        )
    if not is_loopback(host):
        raise UserError(
            f"monitor: '{host}' is reached by others than this machine; give --token-file"
        )
    return link_access()


_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s\[\]:@/?#]+)(?::\d+)?")
WRONG_HOST = "ask by the address of this listener, or declare the name that you use"


class Hosts:
    """The hosts of a listener: its own, the loopback, declared names, and addresses.

    address: HOST:PORT where it listens. On the loopback no other address is allowed.
    names: the declared names.
    """

    def __init__(self, address: str, names: Iterable[str] = ()) -> None:
        bound = listen_address(address)[0].lower()
        self._names = {bound, *(name.lower().rstrip(".") for name in names)}
        self._any_address = not is_loopback(bound)

    def allow(self, *headers: str) -> bool:
        """Whether a request is answered. headers: all its headers `Host`; there must be one."""
        named = _HOST.fullmatch(headers[0]) if len(headers) == 1 else None
        if named is None:
            return False
        host = named[1].strip("[]").rstrip(".").lower()
        if host in self._names or is_loopback(host):
            return True
        return self._any_address and _is_address(host)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def listen_address(address: str) -> tuple[str, int]:
    """Parses HOST:PORT. Raises UserError."""
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise UserError(f"listen address '{address}': write HOST:PORT, such as 127.0.0.1:9464")
    return host, int(port)


def listener(address: str) -> socket.socket:
    """A socket that listens at HOST:PORT. Raises UserError."""
    host, port = listen_address(address)
    try:
        family, *_, socket_address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with ExitStack() as stack:
            listening = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(socket_address)
            listening.listen(1024)
            stack.pop_all()
            return listening
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "no such host"
        raise UserError(f"listen address '{address}': {reason}") from None


def is_loopback(host: str) -> bool:
    """Whether only processes of this machine can reach the host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
