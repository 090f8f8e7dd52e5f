"""What a port speaks: asked where a client and a broker do not understand each other.

A broker that is away and one that hears another protocol look alike to a client: both close the
connection. The protocol's own first question, with and without TLS, tells them apart.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Mapping

_PATIENCE = 1.0  # seconds for a step of a conversation
_SERVERS = 2  # bootstrap servers that are asked
_VERSIONS, _METADATA = 18, 3  # numbers of Kafka's requests
# Of a TLS handshake that fails because the other side speaks no TLS.
_NO_TLS = {"WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "HTTP_REQUEST"}


def protocol_mismatch(settings: Mapping[str, str]) -> str:
    """How a client's security.protocol is not what a bootstrap server speaks; empty if it is not
    known to be so. settings: of librdkafka; nothing of them is sent."""
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
    """Whether a broker answers this request, without TLS and from somebody unknown."""
    # Kind, version, correlation id, no name of the client; of metadata also no topics.
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
