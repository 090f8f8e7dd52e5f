"""Addresses of listeners, HOST:PORT, and the hosts that a request may name.

A page of another site must not read a listener's answers.

The name of another site can resolve to the address of a listener (DNS rebinding). A browser then
sends that name as `Host`, and gives the answer to the site's page. An address in `Host`, or
`localhost`, is no name of another site.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable
from contextlib import ExitStack
from ipaddress import ip_address

from stream_dp.errors import UserError

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
