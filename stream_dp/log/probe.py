"""Which protocol a port speaks, for the message of a client that cannot connect.

To a client, a broker that is down and one that expects another protocol look alike: both close the
connection. Kafka's first request, sent with and without TLS, tells them apart.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Mapping

_PATIENCE = 1.0  # seconds to wait for each answer
_SERVERS = 2  # how many bootstrap servers are tried
_VERSIONS, _METADATA = 18, 3  # API keys of Kafka's ApiVersions and Metadata requests
# Reasons of a failed TLS handshake with a server that does not speak TLS.
_NO_TLS = {"WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "HTTP_REQUEST"}


def protocol_mismatch(settings: Mapping[str, str]) -> str:
    """How a client's security.protocol differs from what a bootstrap server speaks, in words.

    Empty if no difference is detected. settings: of librdkafka; none of them is sent.
    """
    protocol = settings.get("security.protocol", "plaintext").lower()
    for server in settings["bootstrap.servers"].split(",")[:_SERVERS]:
        host, _, port = server.rpartition("://")[2].strip().rpartition(":")
        if not host or not port.isdigit():
            continue
        place = host.strip("[]"), int(port)
        if "ssl" in protocol:
            wrong = _answers(place, _VERSIONS)
            speaks = "no TLS"
        else:
            wrong = _speaks_tls(place)
            speaks = "TLS"
            if not wrong and protocol == "plaintext" and _answers(place, _VERSIONS):
                wrong = not _answers(place, _METADATA)
                speaks = "to nobody who does not authenticate"
        if wrong:
            return f"{server} speaks {speaks}, and security.protocol is '{protocol}'"
    return ""


def _speaks_tls(place: tuple[str, int]) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection(place, _PATIENCE) as plain:
            with context.wrap_socket(plain):
                return True
    except ssl.SSLError as error:
        return error.reason is not None and error.reason not in _NO_TLS
    except OSError:
        return False


def _answers(place: tuple[str, int], request: int) -> bool:
    """Whether a broker answers this request without TLS and without authentication."""
    # API key, version, correlation id, no client id; for Metadata also an empty list of topics.
    body = struct.pack(">hhih", request, 0, 1, -1) + (b"\0" * 4 if request == _METADATA else b"")
    try:
        with socket.create_connection(place, _PATIENCE) as connection:
            connection.sendall(struct.pack(">i", len(body)) + body)
            first = b""
            while len(first) < 8 and (data := connection.recv(8 - len(first))):
                first += data
        return len(first) == 8 and first[4:] == struct.pack(">i", 1)
    except OSError:
        return False
