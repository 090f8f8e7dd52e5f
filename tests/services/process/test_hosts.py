"""`Host` on every listener: a name of another site is not answered, an address always is."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from kit.listeners import BEARER, TOKEN
from kit.monitors import monitor
from kit.panels import StudyFolder
from kit.studies import study_toml

from stream_dp.population.tables import FileForm
from stream_dp.services.desk.desk_page import DeskPage
from stream_dp.services.desk.draft import Draft
from stream_dp.services.process.access import Access, Hosts
from stream_dp.services.process.command_output import Output
from stream_dp.services.releaser.metrics_listeners import listening
from stream_dp.services.releaser.releaser_facts import Facts
from stream_dp.studyfile import load_study

FOREIGN = ("evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example")
STRANGE = ("", " ", "[", "[::z]", "a@localhost", "localhost/evil", "localhost:x", "\xe9", "a b")
LOOPBACK = ("127.0.0.1", "127.0.0.1:9464", "localhost", "LOCALHOST:1", "localhost.", "[::1]:80")
OTHERS = ("10.1.2.3:80", "192.0.2.7", "[2001:db8::1]:80")


def test_the_loopback_has_names_of_its_own_alone() -> None:
    for address in ("127.0.0.1:0", "localhost:80", "[::1]:80"):
        hosts = Hosts(address)
        assert all(map(hosts.allow, LOOPBACK))
        assert not any(map(hosts.allow, (*FOREIGN, *STRANGE, *OTHERS)))
        assert not hosts.allow()
        assert not hosts.allow("localhost", "localhost")


def test_beyond_the_loopback_addresses_are_no_names_of_other_sites() -> None:
    """Of a pod's probe, of Prometheus, of a port that a container publishes."""
    for address in ("0.0.0.0:9464", "172.30.53.10:9464", "[::]:80"):
        hosts = Hosts(address)
        assert all(map(hosts.allow, (*LOOPBACK, *OTHERS)))
        assert not any(map(hosts.allow, (*FOREIGN, *STRANGE)))


def test_declared_names() -> None:
    hosts = Hosts("metrics.example.org:9464", ["Poverty.example.org", "releaser"])
    for name in ("metrics.example.org:9464", "poverty.example.org", "POVERTY.example.org.:443"):
        assert hosts.allow(name)
    assert hosts.allow("releaser:9464")
    assert not any(map(hosts.allow, (*FOREIGN, "example.org", "a.poverty.example.org")))


@contextmanager
def listeners(folder: Path) -> Iterator[dict[str, int]]:
    """The ports of every listener that stream-dp has."""
    facts = Facts(load_study(StudyFolder(folder / "place").file)[0])
    study = folder / "small.toml"
    study.write_text(study_toml())
    page = DeskPage(
        "a.csv",
        lambda _: Draft((), (), {}, None, FileForm(), (), None, ()),
        lambda _: Output({}, ""),
    )
    names = ["stream-dp.example"]
    named = ("--hosts", *names)
    with (
        listening("127.0.0.1:0", facts, Access(TOKEN), names) as confidential,
        listening("127.0.0.1:0", facts, None, names) as public,
        monitor(f"sqlite:{folder / 'none.db'}", *named, ready=503) as analysts,
        monitor(str(study), "--operator", *named) as operators,
        page,
    ):
        yield {
            "confidential": confidential,
            "public": public,
            "monitor": analysts.port,
            "operator": operators.port,
            "init": page._server.server_address[1],
        }


def test_no_listener_answers_to_the_name_of_another_site(folder: Path) -> None:
    pytest.importorskip("fastapi")

    def status(port: int, path: str, *hosts: str) -> int:
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=300)) as connection:
            connection.putrequest("GET", path, skip_host=True)
            for host in hosts:
                connection.putheader("Host", host)
            connection.putheader("Authorization", BEARER["Authorization"])
            connection.endheaders()
            return connection.getresponse().status

    with listeners(folder) as ports:
        for name, port in ports.items():
            for path in ("/", "/healthz", "/metrics", "/style.css", "/login"):
                for host in (*FOREIGN, "10.1.2.3"):
                    assert status(port, path, host) == 421, (name, path, host)
                several = status(port, path, "localhost", "evil.example")
                assert several in {400, 421}, (name, path)
                assert status(port, path) in {400, 421}, (name, path)
                assert status(port, path, "localhost") not in {400, 421}, (name, path)
                if name != "init":
                    assert status(port, path, "stream-dp.example") != 421, (name, path)
