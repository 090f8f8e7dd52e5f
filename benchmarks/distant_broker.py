"""A broker at a distance: clients of one of its listeners reach it through a delaying proxy."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from broker import FOLDER, Broker, free_port

_PIECE = 1 << 18  # bytes that are forwarded at once


class DistantBroker(Broker):
    """A broker with a second listener, to which clients come through another port.

    near: the port of the second listener.
    far: the port that clients of the second listener connect to.
    """

    def __init__(self, folder: Path, near: int, far: int) -> None:
        super().__init__(folder, libs=FOLDER / "libs")
        self.near, self.far = near, far

    def _format(self) -> None:
        super()._format()
        path = self.folder / "server.properties"
        lines = []
        for line in path.read_text().splitlines():
            name = line.partition("=")[0]
            port = {"listeners": self.near, "advertised.listeners": self.far}.get(name)
            lines.append(line if port is None else f"{line},FAR://127.0.0.1:{port}")
        protocols = ",".join(f"{name}:PLAINTEXT" for name in ("PLAINTEXT", "CONTROLLER", "FAR"))
        lines.append(f"listener.security.protocol.map={protocols}")
        path.write_text("\n".join(lines))


async def _forward(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float
) -> None:
    """Writes everything that is read, so many seconds later."""
    clock, pieces = asyncio.get_running_loop().time, asyncio.Queue[tuple[float, bytes]]()

    async def write() -> None:
        while True:
            due, piece = await pieces.get()
            await asyncio.sleep(due - clock())
            if not piece:
                return
            writer.write(piece)

    writing = asyncio.create_task(write())
    try:
        with suppress(OSError):
            while piece := await reader.read(_PIECE):
                pieces.put_nowait((clock() + seconds, piece))
        pieces.put_nowait((clock() + seconds, b""))
        await writing
        writer.close()
    finally:
        writing.cancel()


async def _serve(port: int, target: int, seconds: float, ready: threading.Event) -> None:
    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, here = await asyncio.open_connection("127.0.0.1", target)
        try:
            await asyncio.gather(_forward(reader, here, seconds), _forward(there, writer, seconds))
        except asyncio.CancelledError:
            pass  # at the end; the server would report it as a fault
        finally:
            here.close()
            writer.close()

    async with await asyncio.start_server(accept, "127.0.0.1", port):
        ready.set()
        await asyncio.Event().wait()


@contextmanager
def delayed(port: int, target: int, round_trip: float) -> Iterator[None]:
    """Forwards connections to `port` to the port `target`, with this round trip in seconds."""
    loop, ready = asyncio.new_event_loop(), threading.Event()
    serving = loop.create_task(_serve(port, target, round_trip / 2, ready))

    def run() -> None:
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(serving)

    thread = threading.Thread(target=run)
    thread.start()
    ready.wait()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(serving.cancel)
        thread.join()
        if rest := asyncio.all_tasks(loop):
            for task in rest:
                task.cancel()
            loop.run_until_complete(asyncio.wait(rest))
        loop.close()


@contextmanager
def distant_broker(folder: Path, round_trip: float) -> Iterator[tuple[str, str]]:
    """A new broker's addresses: on this machine, and at a distance of `round_trip` seconds."""
    broker = DistantBroker(folder, free_port(), free_port())
    broker.start()
    try:
        with delayed(broker.far, broker.near, round_trip):
            yield broker.address, f"127.0.0.1:{broker.far}"
    finally:
        broker.stop()
