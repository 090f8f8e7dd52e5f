"""A schema registry: what it says, and what becomes of a report when it says nothing."""

import base64
import json
import socket
import threading
import time
from contextlib import suppress

import pytest
from kit.registry import registry
from kit.shapes import AVRO_REPORT
from kit.studies import study_toml

from stream_dp.errors import UserError
from stream_dp.log.log import Unavailable
from stream_dp.services.intake import schema_source
from stream_dp.services.intake.input_decoders import decoder_maker
from stream_dp.services.intake.schema_source import Registry
from stream_dp.services.storage.deployment import Deployment


@pytest.fixture
def server():
    with registry() as server:
        yield server


def asked(url, number=7, **how):
    return Registry(url, sleep=lambda seconds: None, **how)(number)


def one(texts):
    (text,) = texts
    return json.loads(text)


def test_a_schema_is_the_registrys_text(server):
    server.give(7, AVRO_REPORT)
    server.give(8, AVRO_REPORT, schemaType="AVRO", references=[])
    for number in (7, 8):
        assert one(asked(server.url, number)) == AVRO_REPORT


def test_a_schema_that_it_does_not_know_or_of_another_kind_is_none(server):
    assert asked(server.url) is None
    server.give(7, {}, schemaType="JSON")
    assert asked(server.url) == ()
    assert len(server.asked) == 2


@pytest.mark.parametrize("length", [999_000, 1_100_000, 9_000_000])
def test_a_schema_over_a_megabyte_is_unusable_and_no_fault_of_the_registry(server, length):
    server.give(7, {**AVRO_REPORT, "doc": "x" * length})
    texts = asked(server.url)
    assert texts == () if length > 1_000_000 else one(texts)["doc"] == "x" * length
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("head", "drop"),
    [(b"", b"H"), (b"HTTP/1.1 200 OK\r\n", b"X"), (b"HTTP/1.1 200 OK\r\n\r\n", b" ")],
)
def test_a_registry_that_drips_is_given_up_at_one_deadline(head, drop, monkeypatch):
    """Every byte comes long before the socket's own time-out."""
    monkeypatch.setattr(schema_source, "_PATIENCE", 0.3)
    over = threading.Event()

    def drip(client):
        with client, suppress(OSError):
            client.sendall(head)
            while not over.wait(0.02):
                client.sendall(drop)

    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept():
            for _ in range(3):
                threading.Thread(target=drip, args=(server.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        begun = time.monotonic()
        with pytest.raises(Unavailable, match="no whole answer"):
            asked(f"http://127.0.0.1:{server.getsockname()[1]}")
        over.set()
    assert 0.9 <= time.monotonic() - begun < 60


@pytest.mark.parametrize(
    "answer",
    [
        (404, b"<html>no such page</html>"),
        (404, {"error_code": 40401}),
        (404, b""),
        (500, {"error_code": 50001}),
        (503, b""),
        (429, b""),
        (302, b""),
        (200, b""),
        (200, b"<html>"),
        (200, b"[" * 100_000),
        (200, []),
        (200, {}),
        (200, {"schema": 5}),
        (200, b'"' + b"x" * 2_000_000 + b'"'),
    ],
)
def test_anything_else_is_no_answer_and_refuses_nothing(server, answer):
    server.answers["/schemas/ids/7"] = answer
    with pytest.raises(Unavailable, match="none is refused") as refusal:
        asked(server.url)
    assert "schema 7" in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert [path for path, _ in server.asked] == ["/schemas/ids/7"] * 3


def test_nobody_who_answers(server):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        with pytest.raises(Unavailable, match="no answer"):
            asked(f"http://127.0.0.1:{probe.getsockname()[1]}")


def test_an_answer_at_the_second_try_is_enough(server):
    server.answers["/schemas/ids/7"] = 503, b""
    pauses = []

    def sleep(seconds):
        pauses.append(seconds)
        server.give(7, AVRO_REPORT)

    assert one(Registry(server.url, sleep=sleep)(7)) == AVRO_REPORT
    assert len(pauses) == 1


@pytest.mark.parametrize("status", [401, 403])
def test_a_registry_that_refuses_says_so_at_once(server, status):
    server.answers["/schemas/ids/7"] = status, {"message": "who?"}
    with pytest.raises(UserError, match="registry_password") as refusal:
        asked(server.url, authorization="Basic c2VjcmV0")
    assert "c2VjcmV0" not in str(refusal.value)
    assert len(server.asked) == 1


def deployment(folder, **declared):
    path = folder / "study.toml"
    path.write_text(study_toml(run={"input": {"format": "avro", **declared}}))
    return Deployment.load(path)


def test_who_asks_is_said_and_to_nobody_else(server, tmp_path, monkeypatch):
    server.give(7, AVRO_REPORT)
    (tmp_path / "password").write_text("secret\n")
    monkeypatch.setenv("REGISTRY_PASSWORD", "secret")
    for where in ({"file": "password"}, {"env": "REGISTRY_PASSWORD"}):
        run = deployment(tmp_path, registry=server.url, registry_user="me", registry_password=where)
        several = decoder_maker(run)(run.study, bytes(32))
        several._schemas._source(7)
        sent = server.asked.pop()[1]["Authorization"]
        assert base64.b64decode(sent.removeprefix("Basic ")) == b"me:secret"


@pytest.mark.parametrize("where", [{"file": "none"}, {"env": "NOT_SET"}])
def test_a_password_that_is_not_there(tmp_path, where):
    run = deployment(
        tmp_path, registry="http://127.0.0.1:1", registry_user="me", registry_password=where
    )
    with pytest.raises(UserError, match=r"run\.input\.registry_password"):
        decoder_maker(run)


def test_files_are_looked_for_before_the_registry_is_asked(server, tmp_path):
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "7.avsc").write_text(json.dumps(AVRO_REPORT))
    server.give(8, AVRO_REPORT)
    run = deployment(tmp_path, registry=server.url, schemas="schemas")
    schema = decoder_maker(run)(run.study, bytes(32))._schemas._source
    assert one(schema(7)) == one(schema(8)) == AVRO_REPORT
    assert schema(9) is None
    assert [path for path, _ in server.asked] == ["/schemas/ids/8", "/schemas/ids/9"]


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(UserError, match="no such folder"):
        decoder_maker(deployment(tmp_path, schemas="schemas"))


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    (tmp_path / "schemas").mkdir()
    monkeypatch.setitem(__import__("sys").modules, "fastavro", None)
    with pytest.raises(UserError, match=r"pip install '\.\[avro\]'"):
        decoder_maker(deployment(tmp_path, schemas="schemas"))
