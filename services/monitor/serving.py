"""Serves an application over HTTP until SIGINT or SIGTERM."""

from __future__ import annotations

import socket
from collections.abc import Callable

import uvicorn

from stream_dp.errors import UserError

from ..addresses import listen_address
from .limits import PATIENCE, Application, PatientProtocol

_CONNECTIONS = 512  # more are answered 503
_LARGEST_HEAD = 16_384  # bytes of a request's headers


def serve(application: Application, address: str, begun: Callable[[int], None]) -> None:
    """Serves at HOST:PORT. begun: called with the port once it listens. Raises UserError."""
    host, port = listen_address(address)
    try:
        family, *_, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(1024)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "no such host"
        raise UserError(f"listen address '{address}': {reason}") from None
    begun(int(listener.getsockname()[1]))
    server = uvicorn.Server(
        uvicorn.Config(
            application,
            http=PatientProtocol,
            ws="none",
            lifespan="off",
            limit_concurrency=_CONNECTIONS,
            timeout_keep_alive=int(PATIENCE),
            h11_max_incomplete_event_size=_LARGEST_HEAD,
            timeout_graceful_shutdown=2,
            server_header=False,
            proxy_headers=False,
            access_log=False,
            log_level="critical",
        )
    )
    with listener:
        server.run(sockets=[listener])
