"""Detects the protocol of a port, for the error of a client without a connection.

To a client, a broker that is down and a broker that expects another protocol look alike: both close
the connection. Kafka's first request, sent with and without TLS, tells the two apart.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Mapping
from contextlib import ExitStack

_PATIENCE = 1.0  # seconds to wait for each answer
_SERVERS = 2  # how many bootstrap servers are tried
_VERSIONS, _METADATA = 18, 3  # API keys of Kafka's ApiVersions and Metadata requests
# Reasons of a failed TLS handshake with a server that does not speak TLS.
_NO_TLS = {"WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "HTTP_REQUEST"}


def protocol_mismatch(settings: Mapping[str, object]) -> str:
    """Describes how a client's security.protocol differs from the protocol of a bootstrap server.

    settings: of librdkafka; none of them is sent. Returns an empty text if no difference is
    detected.
    """
    protocol = str(settings.get("security.protocol", "plaintext")).lower()
    for server in str(settings["bootstrap.servers"]).split(",")[:_SERVERS]:
        host, _, port = server.rpartition("://")[2].strip().rpartition(":")
        if not host or not port.isdigit():
            continue
        endpoint = host.strip("[]"), int(port)
        tls = "ssl" in protocol
        wrong, speaks = (
            (_answers(endpoint, _VERSIONS), "no TLS") if tls else (_speaks_tls(endpoint), "TLS")
        )
        if not wrong and "sasl" not in protocol and _answers(endpoint, _VERSIONS, tls):
            wrong = not _answers(endpoint, _METADATA, tls)
            speaks = "to nobody who does not authenticate"
        if wrong:
            return f"{server} speaks {speaks}, and security.protocol is '{protocol}'"
    return ""


def _over_tls(plain: socket.socket) -> ssl.SSLSocket:
    """Opens TLS on a connection without checking the server: nothing of ours is sent on it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(plain)


def _speaks_tls(endpoint: tuple[str, int]) -> bool:
    try:
        with socket.create_connection(endpoint, _PATIENCE) as plain, _over_tls(plain):
            return True
    except ssl.SSLError as error:
        return error.reason is not None and error.reason not in _NO_TLS
    except OSError:
        return False


def _answers(endpoint: tuple[str, int], request: int, tls: bool = False) -> bool:
    """Tells whether a broker answers a request without authentication, and with or without TLS."""
    # API key, version, correlation id, no client id; for Metadata also an empty list of topics.
    body = struct.pack(">hhih", request, 0, 1, -1) + (b"\0" * 4 if request == _METADATA else b"")
    try:
        with ExitStack() as stack:
            connection = stack.enter_context(socket.create_connection(endpoint, _PATIENCE))
            if tls:
                connection = stack.enter_context(_over_tls(connection))
            connection.sendall(struct.pack(">i", len(body)) + body)
            first = b""
            while len(first) < 8 and (data := connection.recv(8 - len(first))):
                first += data
        return len(first) == 8 and first[4:] == struct.pack(">i", 1)
    except OSError:
        return False
