"""Signed statements of audits: written by `audit`, checked by `verify`, shown by the monitor."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from kit.audited_studies import ONE_WINDOW
from kit.commands import json_output, refusal
from kit.monitors import monitor

from stream_dp.log.signing import SigningKey
from stream_dp.services.audit import audit as command
from stream_dp.services.process.command_output import INCONSISTENT

SIGNED = (
    ONE_WINDOW
    + """public = "sqlite:public.db"
[run.signing]
file = "signing.pem"
"""
)


def begun(folder: Path, text: str = SIGNED) -> Path:
    """A study with a key whose public log has begun."""
    folder.mkdir()
    form = Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    (folder / "signing.pem").write_bytes(Ed25519PrivateKey.generate().private_bytes(*form))
    file = folder / "study.toml"
    file.write_text(text)
    return file


@pytest.fixture
def study(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    file = begun(tmp_path / "study")
    json_output(capsys, "run", file, "--until-idle")
    return file


@pytest.fixture
def stated(study: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    file = study.parent / "audit.json"
    json_output(capsys, "audit", study, "answers", "--runs", 60, "--statement", file)
    return file


def public_of(study: Path) -> str:
    return f"sqlite:{study.parent / 'public.db'}"


def test_a_statement_is_checked_with_the_public_log_alone(
    study: Path, stated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    envelope = json.loads(stated.read_text())
    statement = json.loads(b64decode(envelope["payload"]))
    assert statement["predicateType"] == "urn:stream-dp:audit:v1"
    assert statement["predicate"]["runs"] == 60
    assert statement["predicate"]["rho_declared"] == 1
    assert not statement["predicate"]["violation"]
    lines = json_output(capsys, "verify", public_of(study), "--statement", stated)["verified"]
    (line,) = (line for line in lines if line.startswith("audit:"))
    assert "audit of answers" in line
    assert "60 runs at 95 % confidence" in line


def test_a_statement_is_repeated_to_the_digit(
    study: Path, stated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By anybody with the study file; a statement that no run has made is refused."""
    envelope = json.loads(stated.read_text())
    statement = json.loads(b64decode(envelope["payload"]))
    stranger = study.parent / "stranger.toml"
    stranger.write_text(study.read_text().replace('[run.signing]\nfile = "signing.pem"', ""))
    repeated = json_output(capsys, "audit", stranger, "--repeat", stated)
    for name in ("rho_lower_bound", "rho_lower_bound_counted", "seed", "pair", "code_sha256"):
        assert repeated[name] == statement["predicate"][name]
    key = SigningKey.of_pem((study.parent / "signing.pem").read_text())
    statement["predicate"]["rho_lower_bound"] -= 0.01
    stated.write_text(key.attest(json.dumps(statement, separators=(",", ":")).encode()))
    words = refusal(capsys, INCONSISTENT, "audit", stranger, "--repeat", stated)
    assert "states rho_lower_bound" in words
    assert "the audit gives" in words
    assert "cannot be read" in refusal(capsys, 2, "audit", stranger, "--repeat", study)
    words = refusal(capsys, 2, "audit", stranger, "answers", "--repeat", stated)
    assert "the statement names what is audited" in words


def test_the_monitors_privacy_label_shows_a_statement(study: Path, stated: Path) -> None:
    with monitor(public_of(study), "--statement", str(stated)) as served:
        _, text = served.get("/api/v1/privacy")
        rows = {row["about"]: row["words"] for row in json.loads(text)["label"]}
        assert "audit of answers" in rows["Audited"]


def test_another_result_than_the_signed_one_is_refused(
    study: Path, stated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    envelope = json.loads(stated.read_text())
    payload = b64decode(envelope["payload"]).replace(b'"runs":60', b'"runs":6000')
    stated.write_text(json.dumps(envelope | {"payload": b64encode(payload).decode()}))
    words = refusal(capsys, INCONSISTENT, "verify", public_of(study), "--statement", stated)
    assert "no key of this log signed it" in words


def test_a_statement_of_another_study_is_refused(
    study: Path, stated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = begun(tmp_path / "other", SIGNED.replace("size = 20", "size = 30"))
    json_output(capsys, "run", other, "--until-idle")
    words = refusal(capsys, INCONSISTENT, "verify", public_of(other), "--statement", stated)
    assert "no key of this log signed it" in words
    (other.parent / "signing.pem").write_bytes((study.parent / "signing.pem").read_bytes())
    for name in ("trial.db", "public.db", "trial.db.releaser.mark"):
        (other.parent / name).unlink()
    json_output(capsys, "run", other, "--until-idle")
    words = refusal(capsys, INCONSISTENT, "verify", public_of(other), "--statement", stated)
    assert "about another study" in words


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff", b"[]", b"{}", b'{"payload": 3}', b'{"payload": "AA=="}', b"[" * 60_000],
)
def test_a_file_that_is_no_statement_is_refused_in_one_line(
    content: bytes, study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = study.parent / "hostile.json"
    file.write_bytes(content)
    code = 2 if content == b"\xff" else INCONSISTENT
    (line,) = refusal(capsys, code, "verify", public_of(study), "--statement", file).splitlines()
    assert "hostile.json" in line


def test_a_signed_manifest_is_no_statement(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the key signs for messages does not pass for an audit."""
    file = study.parent / "signed.json"
    key = SigningKey.of_pem((study.parent / "signing.pem").read_text())
    file.write_text(key.sign(b"anything"))
    words = refusal(capsys, INCONSISTENT, "verify", public_of(study), "--statement", file)
    assert "is no statement of an audit" in words


def test_mistakes_are_found_before_the_audit(
    study: Path, stated: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "audit", None)
    again = ("audit", study, "answers", "--statement")
    assert "is there already" in refusal(capsys, 2, *again, stated)
    assert "its folder does not exist" in refusal(capsys, 2, *again, stated / "no" / "a.json")
    text = study.read_text()
    study.write_text(text[: text.index("[run.signing]")])
    new = study.parent / "new.json"
    assert "name the study's key as [run.signing]" in refusal(capsys, 2, *again, new)
    assert not new.exists()
