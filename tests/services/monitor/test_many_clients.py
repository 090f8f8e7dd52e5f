"""Many clients of the monitor, most of them slow or hostile: the others are served."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from kit.hostile import drafts, sealed, sound
from kit.monitors import Monitor, ServedHere, ask, connected, follower_of, monitor, wait_until

from stream_dp.services.monitor.answer_limits import MOST_STREAMS, MOST_WAITING
from stream_dp.services.monitor.client_limits import MOST_CONNECTIONS
from stream_dp.services.monitor.forks import Work
from stream_dp.services.monitor.public_front import public_monitor

RECORDS = sealed(drafts(sound()))


def asked_at_once(application: Any, targets: list[str], enough: Any) -> list[int]:
    """The statuses that clients who stay get, in the order of their answers, until `enough`."""
    statuses: list[int] = []

    async def client(target: str) -> None:
        path, _, query = target.partition("?")
        scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode()}
        scope |= {"query_string": query.encode(), "headers": [], "root_path": ""}
        messages = iter([{"type": "http.request", "body": b"", "more_body": False}])

        async def receive() -> Any:
            for message in messages:
                return message
            return await asyncio.Event().wait()

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        await application(scope, receive, send)

    async def clients() -> None:
        tasks = [asyncio.create_task(client(target)) for target in targets]
        while not enough(statuses):
            await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(asyncio.wait_for(clients(), 600))
    return statuses


def test_viewers_of_events_are_bounded() -> None:
    application = public_monitor(follower_of(RECORDS))
    statuses = asked_at_once(application, ["/events"] * 300, lambda seen: len(seen) == 300)
    assert (statuses.count(200), statuses.count(503)) == (MOST_STREAMS, 44)
    again = asked_at_once(application, ["/events"], len)
    assert again == [200]  # those who have left make room


class Slow(ServedHere):
    """Never answers, and counts what it is asked."""

    asked = 0

    async def ask(self, question: Work, seconds: float) -> Work:
        self.asked += 1
        await asyncio.Event().wait()
        raise AssertionError


def test_what_waits_is_bounded_and_health_is_not_computed() -> None:
    follower = follower_of(RECORDS)
    follower.served = served = Slow(RECORDS)
    application = public_monitor(follower)
    targets = [f"/api/v1/curve?release=pairs&query={i}" for i in range(MOST_WAITING + 50)]
    statuses = asked_at_once(application, [*targets, "/healthz"], lambda seen: len(seen) >= 51)
    assert (statuses.count(503), statuses.count(200)) == (50, 1)
    assert served.asked <= max(2, os.cpu_count() or 1)
    served.asked = 0
    asked_at_once(application, targets[:1] * 100, lambda seen: served.asked)
    assert served.asked == 1  # one computation for all who ask the same


def test_the_oldest_of_too_many_connections_ends(served: Monitor) -> None:
    with ExitStack() as stack:
        slow = [stack.enter_context(connected(served.port)) for _ in range(MOST_CONNECTIONS + 20)]
        assert served.get("/healthz")[0] == 200
        for one in slow[:10]:
            with suppress(ConnectionResetError):
                assert one.recv(1) == b""


def test_the_process_that_answers_is_started_again(log_file: Path) -> None:
    with monitor(f"sqlite:{log_file}") as one:
        assert one.get("/verify")[0] == 200
        children = Path(f"/proc/{one.process.pid}/task")
        pids = [pid for task in children.iterdir() for pid in _children(task)]
        (zygote,) = pids
        for pid in [*_children(Path(f"/proc/{zygote}/task/{zygote}")), zygote]:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: one.get("/privacy")[0] == 200)


def _children(task: Path) -> list[int]:
    return list(map(int, (task / "children").read_text().split()))


def test_an_answer_that_is_known_is_not_computed_again() -> None:
    follower = follower_of(RECORDS)
    application = public_monitor(follower)
    first = ask(application, "/privacy")
    follower.served = Slow(RECORDS)
    again = ask(application, "/privacy")
    assert (again.status, again.body) == (200, first.body)
    known = ask(application, "/privacy", headers={"if-none-match": first.headers["etag"]})
    assert (known.status, known.body) == (304, b"")
