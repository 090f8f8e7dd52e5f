"""Serves an application over HTTP until SIGINT or SIGTERM."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import uvicorn
from starlette.responses import PlainTextResponse

from ..process.addresses import listener
from ..process.hosts import WRONG_HOST, Hosts
from .limits import REQUEST_TIMEOUT, Application, Message, PatientProtocol, Receive, Send

_LARGEST_HEAD = 16_384  # bytes of a request's headers


def serve(
    application: Application, address: str, begun: Callable[[int], None], names: Iterable[str] = ()
) -> None:
    """Serves at HOST:PORT. Raises UserError.

    begun: called with the port when listening.
    names: of hosts by which clients reach the address.
    """
    hosts = Hosts(address, names)
    socket = listener(address)
    begun(int(socket.getsockname()[1]))
    server = uvicorn.Server(
        uvicorn.Config(
            _Named(application, hosts),
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


class _Named:
    """An application that answers no request to the name of another site."""

    def __init__(self, application: Application, hosts: Hosts) -> None:
        self._application, self._hosts = application, hosts

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        named = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if self._hosts.allow(*named):
            await self._application(scope, receive, send)
        else:
            headers = {"X-Content-Type-Options": "nosniff"}
            await PlainTextResponse(f"{WRONG_HOST}\n", 421, headers)(scope, receive, send)
