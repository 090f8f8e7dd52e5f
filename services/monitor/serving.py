"""Serves an application over HTTP until SIGINT or SIGTERM."""

from __future__ import annotations

from collections.abc import Callable

import uvicorn

from ..process.addresses import listener
from .limits import REQUEST_TIMEOUT, Application, PatientProtocol

_LARGEST_HEAD = 16_384  # bytes of a request's headers


def serve(application: Application, address: str, begun: Callable[[int], None]) -> None:
    """Serves at HOST:PORT. begun: called with the port when listening. Raises UserError."""
    socket = listener(address)
    begun(int(socket.getsockname()[1]))
    server = uvicorn.Server(
        uvicorn.Config(
            application,
            http=PatientProtocol,
            ws="none",
            lifespan="off",
            timeout_keep_alive=int(REQUEST_TIMEOUT),
            h11_max_incomplete_event_size=_LARGEST_HEAD,
            timeout_graceful_shutdown=2,
            server_header=False,
            proxy_headers=False,
            access_log=False,
            log_level="critical",
        )
    )
    with socket:
        server.run(sockets=[socket])
