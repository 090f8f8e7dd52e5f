"""Addresses of listeners: HOST:PORT."""

from __future__ import annotations

import ipaddress
import socket
from contextlib import ExitStack

from stream_dp.errors import UserError


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
