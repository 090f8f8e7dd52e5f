"""Questions to the listeners of a releaser that runs beside the test."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import NamedTuple

from kit.panels import StudyFolder
from stream_dp.services.process.access import Access
from stream_dp.services.releaser.metrics_listeners import listening
from stream_dp.services.releaser.releaser_facts import Facts

# What the public listener serves, and nothing else.
ALLOWED = {
    "stream_dp_study_info",
    "stream_dp_release_index",
    "stream_dp_rho_spent",
    "stream_dp_rho_left",
    "stream_dp_release_scheduled_seconds",
}
STUDY = '{study="small"}'
TOKEN = "a token of the tests alone"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


def ask(port: int, path: str, method: str = "GET", headers: Mapping[str, str] = BEARER) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, headers=dict(headers))
        with connection.getresponse() as response:
            return Answer(response.status, dict(response.getheaders()), response.read())
    finally:
        connection.close()


def metrics(port: int) -> dict[str, float]:
    """Samples by name with labels."""
    lines = ask(port, "/metrics").body.decode().splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in pairs}


def names(port: int) -> set[str]:
    return {name.split("{")[0] for name in metrics(port)}


def until(port: int, status: int, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while ask(port, "/readyz").status != status:
        assert time.monotonic() < deadline, f"/readyz is not {status}"
        time.sleep(0.02)


def confidential_listener(facts: Facts) -> AbstractContextManager[int]:
    """The listener that counts reports for clients with `TOKEN`, and its port."""
    return listening("127.0.0.1:0", facts, Access(TOKEN))


@contextmanager
def both(facts: Facts) -> Iterator[tuple[int, int]]:
    """The ports of a confidential and a public listener."""
    with ExitStack() as stack:
        yield (
            stack.enter_context(confidential_listener(facts)),
            stack.enter_context(listening("127.0.0.1:0", facts, None)),
        )


def rejected_series(reason: str) -> str:
    """The name and labels of the counter of cells rejected for a reason."""
    return f'stream_dp_cells_rejected_total{{reason="{reason}",study="small"}}'


def watched(place: StudyFolder, look: Callable[[str, int, int], None]) -> None:
    """Run until idle; at every step, `look(step, confidential port, public port)`."""
    ports: list[int] = []
    with place.releaser(at=lambda step: look(step, *ports)) as releaser:
        with both(releaser.context.facts) as listening_ports:
            ports += listening_ports
            releaser.run(until_idle=True)
            look("end", *ports)
