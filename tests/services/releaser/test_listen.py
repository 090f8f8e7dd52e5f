"""The listeners of a running releaser: what each serves, to whom, and what it never does."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from pathlib import Path

import pytest
from kit.killed import in_memory
from kit.listeners import ask, both, metrics, names
from kit.panels import LABELS, PERIODS, SCHEDULE, Place, declaration, markers, script

from stream_dp import __version__
from stream_dp.errors import UserError
from stream_dp.services.cli import main
from stream_dp.services.releaser import listen
from stream_dp.services.releaser.facts import CellCounts, Facts
from stream_dp.services.releaser.listen import listening
from stream_dp.studyfile import load_study

ALLOWED = {
    "stream_dp_study_info",
    "stream_dp_release_index",
    "stream_dp_rho_spent",
    "stream_dp_rho_left",
    "stream_dp_release_scheduled_seconds",
}
CONFIDENTIAL = {
    "stream_dp_ready",
    "stream_dp_start_time_seconds",
    "stream_dp_open_period",
    "stream_dp_records_read_total",
    "stream_dp_cells_received_total",
    "stream_dp_cells_accepted_total",
    "stream_dp_cells_superseded_total",
    "stream_dp_cells_rejected_total",
    "stream_dp_cells_pending",
    "stream_dp_log_answered_timestamp_seconds",
    "stream_dp_release_due_timestamp_seconds",
    "stream_dp_closed_period_accepted_cells",
}
STUDY = '{study="small"}'


def raw(port: int, request: bytes) -> bytes:
    """Everything that comes back until the listener closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as sent:
        sent.sendall(request)
        return b"".join(iter(lambda: sent.recv(4096), b""))


def rejected(reason: str) -> str:
    return f'stream_dp_cells_rejected_total{{reason="{reason}",study="small"}}'


@pytest.fixture
def folder() -> Iterator[Path]:
    with in_memory() as folder:
        yield folder


@pytest.fixture
def place(folder: Path) -> Place:
    return Place(folder / "place")


@pytest.fixture
def facts(place: Place) -> Facts:
    return Facts(load_study(place.file)[0])


def watched(place: Place, look: Callable[[str, int, int], None]) -> None:
    """Run until idle; at every step, `look(step, confidential port, public port)`."""
    ports: list[int] = []
    with place.releaser(at=lambda step: look(step, *ports)) as releaser:
        with both(releaser.facts) as found:
            ports += found
            releaser.run(until_idle=True)
            look("end", *ports)


# What is served


def test_health_and_readiness_before_and_after_recovery(place: Place) -> None:
    place.send(script()[0])
    seen: dict[str, tuple[int, int, float]] = {}

    def look(step: str, inside: int, _: int) -> None:
        health, ready = ask(inside, "/healthz").status, ask(inside, "/readyz").status
        seen.setdefault(step, (health, ready, metrics(inside)[f"stream_dp_ready{STUDY}"]))

    watched(place, look)
    assert seen["owned"] == seen["begun"] == (200, 503, 0)
    assert seen["recovered"] == seen["drawn"] == seen["end"] == (200, 200, 1)
    seen.clear()
    watched(place, look)
    assert (seen["owned"], seen["recovered"]) == ((200, 503, 0), (200, 200, 1))


def test_confidential_metrics_follow_the_accounting(place: Place) -> None:
    place.send(script()[0])
    found: dict[str, float] = {}
    watched(place, lambda step, inside, _: found.update(metrics(inside)))
    cells = place.entries()[-1].message.head["accounting"]
    assert found[f"stream_dp_cells_received_total{STUDY}"] >= cells["received"] > 0
    assert found[f"stream_dp_cells_accepted_total{STUDY}"] == cells["accepted"] > 0
    assert found[f"stream_dp_closed_period_accepted_cells{STUDY}"] == cells["accepted"]
    assert found[f"stream_dp_cells_superseded_total{STUDY}"] >= cells["superseded"] > 0
    assert found[f"stream_dp_cells_pending{STUDY}"] >= cells["pending"] > 0
    for reason, count in cells["rejected"].items():
        assert found[rejected(reason)] >= count
    assert found[f"stream_dp_records_read_total{STUDY}"] >= len(script()[0]) - 2
    assert found[f"stream_dp_open_period{STUDY}"] == 2
    assert time.time() - 600 < found[f"stream_dp_start_time_seconds{STUDY}"] <= time.time()
    assert time.time() - 600 < found[f"stream_dp_log_answered_timestamp_seconds{STUDY}"]


def test_the_public_listener_serves_the_allow_list_and_nothing_else(place: Place) -> None:
    place.send(script()[0])
    place.send(script()[1])
    seen: dict[str, tuple[set[str], set[str]]] = {}
    watched(place, lambda step, inside, public: seen.update({step: (names(inside), names(public))}))
    assert seen["owned"] == (
        (CONFIDENTIAL | ALLOWED)
        - {
            "stream_dp_release_scheduled_seconds",
            "stream_dp_log_answered_timestamp_seconds",
            "stream_dp_release_due_timestamp_seconds",
            "stream_dp_closed_period_accepted_cells",
        },
        ALLOWED - {"stream_dp_release_scheduled_seconds"},
    )
    with_markers = {"stream_dp_release_due_timestamp_seconds"}  # nothing is due without a schedule
    assert seen["end"] == ((CONFIDENTIAL | ALLOWED) - with_markers, ALLOWED)


def test_the_public_numbers(place: Place) -> None:
    study = load_study(place.file)[0]
    seen: dict[str, dict[str, float]] = {}
    watched(place, lambda step, _, public: seen.update({step: metrics(public)}))
    hashed = f'study_hash="{study.hash}"'
    about = f'stream_dp_study_info{{study="small",{hashed},version="{__version__}"}}'
    start = {about: 1, f"stream_dp_rho_spent{STUDY}": 0, f"stream_dp_rho_left{STUDY}": 0.5}
    assert seen["owned"] == start | {f"stream_dp_release_index{STUDY}": -1}
    assert seen["end"] == start | {f"stream_dp_release_index{STUDY}": 0}
    for records in script():
        place.send(records)
    watched(place, lambda step, _, public: seen.update({step: metrics(public)}))
    assert seen["end"] == {
        about: 1,
        f"stream_dp_rho_spent{STUDY}": 0.4,
        f"stream_dp_rho_left{STUDY}": 0.1,
        f"stream_dp_release_index{STUDY}": 2 * PERIODS - 1,
        f"stream_dp_release_scheduled_seconds{STUDY}": study.periods.release_time(PERIODS),
    }
    assert (PERIODS, LABELS[-1]) == (5, "2021-05")


@pytest.mark.parametrize(
    "path", ["/", "/healthz", "/readyz", "/metrics/", "/metrics?x", "/../metrics", "*"]
)
def test_everything_else_is_missing_on_the_public_side(facts: Facts, path: str) -> None:
    with both(facts) as (inside, public):
        assert ask(public, path)[::2] == (404, b"not found\n")
        if path not in {"/healthz", "/readyz"}:
            assert ask(inside, path)[::2] == (404, b"not found\n")


@pytest.mark.parametrize("path", ["/metrics", "/secret-path"])
def test_headers_say_nothing_of_the_program(facts: Facts, path: str) -> None:
    with both(facts) as ports:
        for port in ports:
            found = ask(port, path).headers
            assert found.pop("Server") == "stream-dp"
            assert found.keys() == {"Date", "Content-Type", "Content-Length"}


# What moves, and when


def test_public_metrics_do_not_move_before_publication(place: Place) -> None:
    for records in script():
        place.send(records)
    moved: list[str] = []
    last: list[bytes] = []

    def look(step: str, _: int, public: int) -> None:
        now = ask(public, "/metrics").body
        if last and now != last[-1]:
            moved.append(step)
        last.append(now)

    watched(place, look)
    assert moved == ["published"] * (PERIODS + 1)


def test_public_metrics_are_the_same_on_any_input(folder: Path) -> None:
    """Byte for byte, and in the same order, with and without reports: no noise need be coupled."""
    sequences = []
    scheduled = declaration(SCHEDULE)
    for name, text, batches in (
        ("full", declaration(), script()),
        ("empty", declaration(), [markers(n) for n in range(1, PERIODS + 1)]),
        ("full-scheduled", scheduled, script()),
        ("empty-scheduled", scheduled, [[] for _ in range(PERIODS)]),
    ):
        place = Place(folder / name, text)
        for records in batches:
            place.send(records)
        place.clock.now = 1_700_000_000.0  # type: ignore[attr-defined]
        seen: list[bytes] = []

        def look(step: str, _: int, public: int, seen: list[bytes] = seen) -> None:
            now = ask(public, "/metrics").body
            if not seen or now != seen[-1]:
                seen.append(now)

        watched(place, look)
        watched(place, look)
        sequences.append(seen)
    assert sequences[0] == sequences[1]
    assert sequences[2] == sequences[3]
    assert len(sequences[0]) == len(sequences[2]) > PERIODS


def test_a_restart_shows_what_was_published_before(place: Place) -> None:
    for records in script()[:3]:
        place.send(records)
    seen: list[dict[str, float]] = []
    for _ in range(2):
        watched(
            place,
            lambda step, _, public: seen.append(metrics(public)) if step == "end" else None,
        )
    assert seen[0] == seen[1]


def test_a_listener_sees_a_whole_publication_or_nothing(facts: Facts) -> None:
    before = facts.published
    facts.publish(2, Fraction(1, 5), 7.0)
    assert (before.index, before.spent, before.scheduled) == (-1, 0, None)
    after = facts.published
    assert (after.index, after.spent, after.scheduled) == (1, Fraction(1, 5), 7.0)


# Clients of all kinds


@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "X"])
def test_other_methods_do_not_crash(
    facts: Facts, capfd: pytest.CaptureFixture[str], method: str
) -> None:
    with both(facts) as ports:
        for port in ports:
            found = ask(port, "/metrics", method)
            if method == "HEAD":
                assert (found.status, found.body) == (200, b"")
                assert int(found.headers["Content-Length"]) == len(ask(port, "/metrics").body)
            else:
                assert found[::2] == (501, b"not implemented\n")
            assert ask(port, "/metrics").status == 200
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"nonsense <b>quoted</b>\r\n\r\n", b"bad request"),
        (b"GET /metrics HTTP/9.9\r\n\r\n", b"http version not supported"),
        (b"GET /" + b"quoted" * 20_000 + b" HTTP/1.1\r\n\r\n", b"request-uri too long"),
        (
            b"GET /metrics HTTP/1.1\r\n" + b"quoted: 1\r\n" * 200 + b"\r\n",
            b"request header fields too large",
        ),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03quoted\r\n\r\n", b"bad request"),
        (b"", b""),
        (b"GET", b""),
    ],
)
def test_broken_requests_are_answered_without_quoting(
    facts: Facts, capfd: pytest.CaptureFixture[str], request_: bytes, status: bytes
) -> None:
    with both(facts) as ports:
        for port in ports:
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=10) as sent:
                    sent.sendall(request_)
                    sent.shutdown(socket.SHUT_WR)
                    answer = b"".join(iter(lambda: sent.recv(4096), b""))
            except OSError:
                answer = status  # closed with unread bytes
            assert status in answer
            assert b"quoted" not in answer
            assert ask(port, "/metrics").status == 200
    assert capfd.readouterr() == ("", "")


def test_errors_inside_a_page_stay_inside(
    facts: Facts, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(registry: object) -> bytes:
        raise RuntimeError("a true count: 17")

    monkeypatch.setattr(listen, "generate_latest", broken)
    with both(facts) as ports:
        for port in ports:
            assert ask(port, "/metrics")[::2] == (500, b"internal error\n")
    assert capfd.readouterr() == ("", "")


def test_a_client_that_leaves_in_the_middle(
    facts: Facts, capfd: pytest.CaptureFixture[str]
) -> None:
    facts.cells = CellCounts(rejected={f"reason {i}": i for i in range(200_000)})
    with both(facts) as (inside, _):
        with socket.create_connection(("127.0.0.1", inside), timeout=10) as sent:
            sent.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sent.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        facts.cells = CellCounts()
        assert ask(inside, "/metrics").status == 200
        time.sleep(0.3)
    assert capfd.readouterr() == ("", "")


def test_many_idle_clients_do_not_add_up(facts: Facts) -> None:
    with both(facts) as (_, public), ExitStack() as stack:
        idle = [
            stack.enter_context(socket.create_connection(("127.0.0.1", public), timeout=10))
            for _ in range(40)
        ]
        closed = 0
        for held in idle:
            held.settimeout(0.05)
            try:
                closed += held.recv(1) == b""
            except (TimeoutError, ConnectionResetError) as error:
                closed += isinstance(error, ConnectionResetError)
        assert closed == 40 - 16
        for held in idle:
            held.close()
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                assert ask(public, "/metrics").status == 200
                break
            except (http.client.HTTPException, OSError):
                time.sleep(0.05)
        else:
            pytest.fail("not served again")


def test_an_idle_client_is_dropped(facts: Facts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listen._Handler, "timeout", 0.1)
    with both(facts) as (_, public):
        assert raw(public, b"GET /metrics HTTP/1.1\r\nHost:") == b""


# Addresses


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("9464", "write HOST:PORT, such as 127.0.0.1:9464"),
        (":9464", "write HOST:PORT, such as 127.0.0.1:9464"),
        ("127.0.0.1:", "write HOST:PORT, such as 127.0.0.1:9464"),
        ("127.0.0.1:http", "write HOST:PORT, such as 127.0.0.1:9464"),
        ("127.0.0.1:²", "write HOST:PORT, such as 127.0.0.1:9464"),
        ("127.0.0.1:65536", "write HOST:PORT, such as 127.0.0.1:9464"),
        ("127.0.0.1:-1", "write HOST:PORT, such as 127.0.0.1:9464"),
        ("192.0.2.1:9464", "Cannot assign requested address"),
        ("a..b:9464", ""),
        ("[::z]:9464", ""),
    ],
)
def test_a_wrong_address(facts: Facts, address: str, said: str) -> None:
    with pytest.raises(UserError) as caught, listening(address, facts, public=True):
        pass
    (line,) = caught.value.lines
    assert line.startswith(f"listen address '{address}': {said}")


def test_an_address_that_is_taken(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setenv("STREAM_DP_LISTEN", address)
        kept = {name: signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGINT)}
        try:
            assert main(["run", str(place.file), "--until-idle"]) == 2
        finally:
            for name, handler in kept.items():
                signal.signal(name, handler)
    out, error = capsys.readouterr()
    assert (out, error) == ("", f"stream-dp: listen address '{address}': Address already in use\n")
    assert not place.db.exists() or not place.entries()


def test_ipv6(facts: Facts) -> None:
    if not socket.has_ipv6:
        return
    with listening("[::1]:0", facts, public=True) as port:
        with socket.create_connection(("::1", port), timeout=10) as sent:
            sent.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert sent.recv(4096).startswith(b"HTTP/1.0 200 OK")


# The command


def free() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(place: Place, *options: str) -> Iterator[tuple[subprocess.Popen[str], int, int]]:
    """`stream-dp run` with both listeners on; its process and their ports."""
    inside, public = free(), free()
    addresses = {
        "STREAM_DP_LISTEN": f"127.0.0.1:{inside}",
        "STREAM_DP_LISTEN_PUBLIC": f"127.0.0.1:{public}",
    }
    with subprocess.Popen(
        [sys.executable, "-m", "stream_dp.services.cli", "run", str(place.file), *options],
        env=os.environ | addresses,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline and child.poll() is None:
                try:
                    if ask(inside, "/readyz").status == 200:
                        break
                except OSError:
                    pass
                time.sleep(0.05)
            yield child, inside, public
        finally:
            child.kill()


def test_sigterm_ends_cleanly_with_listeners_on(place: Place) -> None:
    place.send(script()[0])
    with running(place) as (child, inside, public):
        with socket.create_connection(("127.0.0.1", public), timeout=10):  # idle to the end
            assert names(public) <= ALLOWED < names(inside) | ALLOWED
            child.send_signal(signal.SIGTERM)
            out, error = child.communicate(timeout=10)
    assert (child.returncode, error) == (0, "")
    assert "Traceback" not in out
    for port in (inside, public):
        with pytest.raises(ConnectionRefusedError):
            ask(port, "/metrics")


def test_json_says_lines_of_json_without_values(place: Place) -> None:
    place.send(script()[0])
    with running(place, "--json") as (child, _, public):
        deadline = time.monotonic() + 30
        while (
            metrics(public)[f"stream_dp_release_index{STUDY}"] < 1 and time.monotonic() < deadline
        ):
            time.sleep(0.05)
        child.send_signal(signal.SIGTERM)
        out, error = child.communicate(timeout=10)
    assert child.returncode == 0
    assert json.loads(out) == {"horizon_reached": False}
    lines = [json.loads(line) for line in error.splitlines()]
    assert [line["message"] for line in lines][:2] == ["closed 2021-01", "published 2021-01"]
    assert lines[2]["message"].startswith("2021-02 waits for: stream-dp close ")
    for line in lines:
        assert line.keys() == {"time", "message"}
        assert "person" not in line["message"]
