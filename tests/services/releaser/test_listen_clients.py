"""The listeners of a running releaser: clients of all kinds, addresses, options."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest
from broker import free_port
from kit.fork_server import Popen
from kit.listeners import ALLOWED, STUDY, TOKEN, ask, both, metrics, names
from kit.panels import StudyFolder, script

from stream_dp.errors import UserError
from stream_dp.services.commands.cli import main
from stream_dp.services.releaser import metrics_listeners as listener_server
from stream_dp.services.releaser import metrics_listeners as listeners
from stream_dp.services.releaser.metrics_listeners import listening
from stream_dp.services.releaser.releaser_facts import CellCounts, Facts


def raw(port: int, request: bytes) -> bytes:
    """The bytes of the answer, until the listener closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as sent:
        sent.sendall(request)
        return b"".join(iter(lambda: sent.recv(4096), b""))


# Clients of all kinds


@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "X"])
def test_other_methods_do_not_crash(
    facts: Facts, capfd: pytest.CaptureFixture[str], method: str
) -> None:
    with both(facts) as ports:
        for port in ports:
            answer = ask(port, "/metrics", method)
            if method == "HEAD":
                assert (answer.status, answer.body) == (200, b"")
                assert int(answer.headers["Content-Length"]) == len(ask(port, "/metrics").body)
            else:
                assert answer[::2] == (501, b"not implemented\n")
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
                with socket.create_connection(("127.0.0.1", port), timeout=60) as sent:
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

    monkeypatch.setattr(listeners, "generate_latest", broken)
    with both(facts) as ports:
        for port in ports:
            assert ask(port, "/metrics")[::2] == (500, b"internal error\n")
    assert capfd.readouterr() == ("", "")


def test_a_client_that_leaves_in_the_middle(
    facts: Facts, capfd: pytest.CaptureFixture[str]
) -> None:
    facts.cells = CellCounts(rejected={f"reason {i}": i for i in range(200_000)})
    with both(facts) as (inside, _):
        with socket.create_connection(("127.0.0.1", inside), timeout=60) as sent:
            sent.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            token = f"Authorization: Bearer {TOKEN}".encode()
            sent.sendall(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n" + token + b"\r\n\r\n")
        facts.cells = CellCounts()
        assert ask(inside, "/metrics").status == 200
        time.sleep(0.3)
    assert capfd.readouterr() == ("", "")


def hung_up(client: socket.socket) -> None:
    """Returns once the listener has ended a connection without an answer."""
    with suppress(ConnectionResetError):
        assert client.recv(1) == b""


def test_many_slow_clients_do_not_keep_others_out(
    facts: Facts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener_server, "PATIENCE", 600)  # none is dropped for its time
    most = listener_server.MOST_CONNECTIONS
    with both(facts) as (inside, _), ExitStack() as stack:
        slow = []
        for _ in range(most + 20):
            slow.append(
                stack.enter_context(socket.create_connection(("127.0.0.1", inside), timeout=600))
            )
            slow[-1].sendall(b"G")
            with suppress(OSError):
                slow[0].sendall(b"E")
        assert ask(inside, "/healthz").status == 200
        assert ask(inside, "/metrics").status == 200
        for client in slow[:20]:  # the oldest made room
            hung_up(client)


def test_a_request_has_a_deadline_as_a_whole(facts: Facts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_server, "PATIENCE", 0.5)
    with both(facts) as (_, public):
        with socket.create_connection(("127.0.0.1", public), timeout=600) as client:
            with suppress(OSError):
                while True:  # a byte at a time, without end
                    client.sendall(b"x")
                    time.sleep(0.05)
        assert raw(public, b"GET /metrics HTTP/1.1\r\nHost:") == b""


def test_a_client_that_reads_nothing_is_hung_up_on(
    facts: Facts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener_server, "PATIENCE", 0.5)
    monkeypatch.setattr(listeners, "generate_latest", lambda registry: bytes(32 << 20))
    with both(facts) as (_, public):
        with socket.create_connection(("127.0.0.1", public), timeout=600) as client:
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            time.sleep(1)
            received = 0
            with suppress(ConnectionResetError):
                while part := client.recv(1 << 20):
                    received += len(part)
    assert received < 32 << 20


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
    with pytest.raises(UserError) as caught, listening(address, facts, None):
        pass
    (line,) = caught.value.lines
    assert line.startswith(f"listen address '{address}': {said}")


def test_an_address_that_is_in_use(
    place: StudyFolder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setenv("STREAM_DP_LISTEN", address)
        monkeypatch.setenv("STREAM_DP_LISTEN_TOKEN", token_file(place))
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
    with listening("[::1]:0", facts, None) as port:
        with socket.create_connection(("::1", port), timeout=60) as sent:
            sent.sendall(b"GET /metrics HTTP/1.0\r\nHost: [::1]\r\n\r\n")
            assert sent.recv(4096).startswith(b"HTTP/1.0 200 OK")


# The command


def token_file(place: StudyFolder) -> str:
    """A file with the token, by a path that is relative to the study file."""
    (place.folder / "token").write_text(f"{TOKEN}\n")
    return "token"


@contextmanager
def running(place: StudyFolder, *options: str) -> Iterator[tuple[Popen, int, int]]:
    """`stream-dp run` with both listeners on; its process and their ports."""
    inside, public = free_port(), free_port()
    addresses = {
        "STREAM_DP_LISTEN": f"127.0.0.1:{inside}",
        "STREAM_DP_LISTEN_PUBLIC": f"127.0.0.1:{public}",
        "STREAM_DP_LISTEN_TOKEN": token_file(place),
    }
    with Popen(
        [sys.executable, "-m", "stream_dp.services.commands.cli", "run", str(place.file), *options],
        env=os.environ | addresses,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            deadline = time.monotonic() + 120
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


def test_sigterm_ends_cleanly_with_listeners_on(place: StudyFolder) -> None:
    place.send(script()[0])
    with running(place) as (child, inside, public):
        with socket.create_connection(("127.0.0.1", public), timeout=60):  # idle to the end
            assert names(public) <= ALLOWED < names(inside) | ALLOWED
            child.send_signal(signal.SIGTERM)
            out, error = child.communicate(timeout=120)
    assert (child.returncode, error) == (0, "")
    assert "Traceback" not in out
    for port in (inside, public):
        with pytest.raises(ConnectionRefusedError):
            ask(port, "/metrics")


def test_json_says_lines_of_json_without_values(place: StudyFolder) -> None:
    place.send(script()[0])
    with running(place, "--json") as (child, _, public):
        assert child.stderr
        said = [child.stderr.readline() for _ in range(3)]  # then it waits
        assert metrics(public)[f"stream_dp_release_index{STUDY}"] == 1
        child.send_signal(signal.SIGTERM)
        out, rest = child.communicate(timeout=120)
    assert child.returncode == 0
    assert json.loads(out) == {"horizon_reached": False}
    lines = [json.loads(line) for line in [*said, *rest.splitlines()]]
    assert [line["message"] for line in lines][:2] == ["closed 2021-01", "published 2021-01"]
    assert lines[2]["message"].startswith("2021-02 waits for: stream-dp close ")
    for line in lines:
        keys = {"time", "level", "event", "study", "period", "release", "job", "message"}
        assert line.keys() == keys
        assert "person" not in line["message"]
    assert [line["event"] for line in lines] == [
        "period-closed",
        "period-published",
        "close-awaited",
    ]
    assert [line["period"] for line in lines] == ["2021-01", "2021-01", "2021-02"]
    assert {(line["level"], line["study"]) for line in lines} == {("info", "small")}
