"""Addresses that a process listens at: HOST:PORT."""

from __future__ import annotations

import ipaddress

from stream_dp.errors import UserError


def listen_address(address: str) -> tuple[str, int]:
    """The host and the port. Raises UserError."""
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise UserError(f"listen address '{address}': write HOST:PORT, such as 127.0.0.1:9464")
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Whether only processes of this machine can reach the host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
