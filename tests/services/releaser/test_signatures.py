"""Signatures: every public message has one, also after a kill, and none that is wrong is read."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from shutil import which

import msgspec
import pytest
from kit.commands import json_output, refusal
from kit.households import HouseholdFolder, use_fit_in_rounds
from kit.panels import PERIODS, StudyFolder
from kit.stops import Stop, killed_at, stop_at
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

import stream_dp
from stream_dp.client import PublicLog
from stream_dp.errors import Inconsistent, UserError
from stream_dp.log import signing
from stream_dp.log.log import Headers, Record
from stream_dp.log.memory import MemoryLog
from stream_dp.log.message import SIGNATURE, build_message, message_records
from stream_dp.log.signing import SigningKey, statement
from stream_dp.release.signatures import KEY_TYPE
from stream_dp.services.storage.deployment import secret_text
from stream_dp.study.topics import RELEASES

pytest.importorskip("cryptography")

# Of RFC 8032's first two test vectors: secret keys, public keys.
VECTORS = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
    ),
]


def pem(secret: str) -> str:
    """PKCS 8 in PEM: a fixed head (RFC 8410), then the 32 bytes of the key."""
    der = bytes.fromhex("302e020100300506032b657004220420" + secret)
    text = base64.b64encode(der).decode()
    return f"-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n"


PEMS = [pem(secret) for secret, _ in VECTORS]
OLD, NEW = (SigningKey.of_pem(text) for text in PEMS)


def public(place: StudyFolder) -> PublicLog:
    with place.public(readonly=True) as log:
        return PublicLog(log)


def records_of(place: StudyFolder) -> list[Record]:
    with place.public(readonly=True) as log:
        stored = log.read(RELEASES, {0: 0}, 100_000, 0).records
    return [
        Record(RELEASES, s.value, s.key, s.headers or (), partition=0, time=s.time) for s in stored
    ]


def read(records: list[Record]) -> PublicLog:
    with closing(MemoryLog()) as log:
        log.create({RELEASES: 1})
        log.append(records)
        return PublicLog(log)


def signatures_at(records: list[Record]) -> list[int]:
    return [i for i, r in enumerate(records) if SIGNATURE in dict(r.headers)]


def with_signature(record: Record, signature: bytes | None) -> Record:
    headers: Headers = tuple(h for h in record.headers if h[0] != SIGNATURE)
    more = () if signature is None else ((SIGNATURE, signature),)
    return replace(record, headers=(*headers, *more))


def test_keys_and_signatures_are_those_of_rfc_8032() -> None:
    assert [key.public for key in (OLD, NEW)] == [f"ed25519:{known}" for _, known in VECTORS]
    # The signatures of the empty message and of 0x72.
    signed = [key._private.sign(data) for key, data in ((OLD, b""), (NEW, b"\x72"))]
    assert [s[:8].hex() for s in signed] == ["e5564300c360ac72", "92a009a9f0d4cab8"]


def test_the_reference_library_reads_an_attestation(sent: StudyFolder) -> None:
    """securesystemslib, which in-toto and TUF are built on, is given the header as it stands."""
    assert sent.run(signer=OLD)
    record = records_of(sent)[-1]
    envelope = Envelope.from_dict(json.loads(dict(record.headers)[SIGNATURE]))
    old, new = (
        SSlibKey(key.public, "ed25519", "ed25519", {"public": key.public.partition(":")[2]})
        for key in (OLD, NEW)
    )
    assert envelope.verify([old, new], 1) == {OLD.public: old}
    stated = json.loads(envelope.payload)
    assert (envelope.payload_type, stated["_type"]) == (
        "application/vnd.in-toto+json",
        "https://in-toto.io/Statement/v1",
    )
    digest = hashlib.sha256(record.value or b"").hexdigest()
    assert [subject["digest"]["sha256"] for subject in stated["subject"]] == [digest]
    envelope.payload = statement(b"another manifest")
    with pytest.raises(VerificationError):
        envelope.verify([old], 1)


def test_every_message_is_signed_by_the_key_that_the_first_one_names(sent: StudyFolder) -> None:
    assert sent.run(signer=OLD)
    log = public(sent)
    assert log.messages[0].head["signer"] == OLD.public
    line = f"signatures: {len(log.messages)} messages, by {OLD.public}, named in message 0"
    assert line in log.verify()
    assert len(signatures_at(records_of(sent))) == len(log.messages)


def test_a_data_set_is_signed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_fit_in_rounds(monkeypatch)
    homes = HouseholdFolder(tmp_path / "homes").prepare()
    for _ in range(2):
        homes.run(signer=OLD)
        homes.work()
    log = homes.public()
    assert "stream-dp.batch" in {r.certificate.type for r in log.published}
    assert log.signatures.signed == len(log.messages)


def test_a_study_without_a_key_works_and_says_so(sent: StudyFolder) -> None:
    assert sent.run()
    assert "signatures: none; this log is not signed" in public(sent).verify()
    assert signatures_at(records_of(sent)) == []


@pytest.mark.skipif(which("openssl") is None, reason="openssl is not installed")
def test_openssl_checks_a_signature(sent: StudyFolder, tmp_path: Path) -> None:
    assert sent.run(signer=OLD)
    (tmp_path / "key.pem").write_text(PEMS[0])
    derive = ["openssl", "pkey", "-in", "key.pem", "-pubout", "-out", "public.pem"]
    subprocess.run(derive, cwd=tmp_path, check=True)
    record = records_of(sent)[-1]
    envelope = json.loads(dict(record.headers)[SIGNATURE])
    payload = base64.b64decode(envelope["payload"])
    head = f"DSSEv1 28 {envelope['payloadType']} {len(payload)} ".encode()
    signature = base64.b64decode(envelope["signatures"][0]["sig"])
    (tmp_path / "signature").write_bytes(signature)
    check = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", "public.pem", "-rawin"]
    check += ["-in", "signed", "-sigfile", "signature"]
    for signed, code in ((head + payload, 0), (head + payload + b" ", 1)):
        (tmp_path / "signed").write_bytes(signed)
        done = subprocess.run(check, cwd=tmp_path, capture_output=True, check=False)
        assert done.returncode == code


def test_a_signature_that_is_missing_wrong_or_anothers_is_refused(sent: StudyFolder) -> None:
    assert sent.run(signer=OLD)
    records = records_of(sent)
    first, second, *_ = signatures_at(records)
    good = dict(records[first].headers)[SIGNATURE]
    other = NEW.sign(records[second].value or b"").encode()
    spaced = json.dumps(json.loads(good)).encode()
    hostile = (b"{}", b"[" * 5000, b'{"signatures":[]}', b'{"signatures":[{"sig":7}]}')
    for wrong in (None, good, other, b"", b"\xff", b"AAAA", good + b"A", spaced, *hostile):
        changed = [*records]
        changed[second] = with_signature(records[second], wrong)
        with pytest.raises(Inconsistent, match=f"message 1: has no signature of {OLD.public}"):
            read(changed)
    assert read(records).head == public(sent).head


def test_another_key_takes_over_by_a_message_of_the_old_one(sent: StudyFolder) -> None:
    with sent.releaser(signer=OLD, at=stop_at("published", 2)) as releaser:
        with pytest.raises(Stop):
            releaser.run(until_idle=True)
    before = records_of(sent)
    names = []
    assert sent.run(signer=NEW, signer_before=OLD, tell=lambda event: names.append(event.name))
    assert names.count("key-changed") == 1
    assert names.count("period-published") == PERIODS - 1
    assert sent.run(signer=NEW, signer_before=OLD)
    assert sent.run(signer=NEW)
    assert records_of(sent)[: len(before)] == before
    log = public(sent)
    assert log.signatures.keys == [OLD.public, NEW.public]
    (number,) = [m.index for m in log.messages if m.head.get("type") == KEY_TYPE]
    assert log.messages[number].head["signer"] == NEW.public
    assert [m.index for m in log.messages] == list(range(len(log.messages)))
    assert any("and 1 that followed it" in line for line in log.verify())


@pytest.mark.parametrize("by", ["new", "nobody", "unsigned log"])
def test_a_key_that_names_itself_is_refused(by: str, sent: StudyFolder) -> None:
    assert sent.run(signer=None if by == "unsigned log" else OLD)
    log = public(sent)
    head = {"type": KEY_TYPE, "signer": NEW.public}
    message = build_message(len(log.messages), log.head, head, [])
    signer = NEW if by == "new" else None
    how = {"kind": KEY_TYPE, "source": "s", "content": "application/json", "time": None}
    added = message_records(message, RELEASES, signer=signer, **how)
    with pytest.raises(Inconsistent, match=f"message {message.index}: "):
        read([*records_of(sent), *added])


@pytest.mark.parametrize("named", ["", "ed25519:", "ed25519:" + "g" * 64, 7, ["x"], None])
def test_a_first_message_names_a_key_or_none(named: object) -> None:
    from kit.hostile import sound

    first = sound()[0]
    message = build_message(0, first.previous, {**first.head, "signer": named}, [])
    how = {"kind": "k", "source": "s", "content": "application/json", "time": None}
    records = message_records(message, RELEASES, **how)
    if named is None:
        assert read(records).signatures.keys == []
    else:
        with pytest.raises(Inconsistent, match="a key of an unknown kind"):
            read(records)


def test_the_journals_key_alone_signs_on(sent: StudyFolder) -> None:
    with sent.releaser(signer=OLD, at=stop_at("published", 2)) as releaser:
        with pytest.raises(Stop):
            releaser.run(until_idle=True)
    for how, words in (
        ({}, "is signed with"),
        ({"signer": NEW}, "signing_before"),
        ({"signer": NEW, "signer_before": NEW}, "signing_before"),
    ):
        with pytest.raises(UserError, match=words):
            sent.run(**how)
    assert sent.run(signer=OLD)


def test_a_study_that_began_without_a_key_goes_on_without(sent: StudyFolder) -> None:
    assert sent.run()
    with pytest.raises(UserError, match="began without signatures"):
        sent.run(signer=OLD)


# Before a commit, after it, and after a publication: all that the files can be.
STEPS = [("publish", 1), ("published", 1), ("committed", 1), ("published", 3)]


@pytest.mark.parametrize(("step", "call"), STEPS)
def test_a_kill_changes_no_signed_byte(step: str, call: int, sent: StudyFolder) -> None:
    killed_at(lambda at: sent.run(at=at, signer=OLD), step, call)
    before = records_of(sent) if sent.public_db.exists() else []
    assert sent.run(signer=OLD)
    check_bytes(sent, before)


@pytest.mark.parametrize("step", ["key-changed", "publish", "published"])
def test_a_kill_while_a_key_takes_over(step: str, sent: StudyFolder) -> None:
    with sent.releaser(signer=OLD, at=stop_at("committed", 1)) as releaser:
        with pytest.raises(Stop):
            releaser.run(until_idle=True)
    # What waits to be published, and was signed with the old key, goes out first.
    killed_at(lambda at: sent.run(at=at, signer=NEW, signer_before=OLD), step)
    before = records_of(sent)
    assert sent.run(signer=NEW, signer_before=OLD)
    check_bytes(sent, before)
    assert public(sent).signatures.keys == [OLD.public, NEW.public]


def check_bytes(place: StudyFolder, before: list[Record]) -> None:
    """The public log is what the journal holds, and grew from what it was; all is signed."""
    after = records_of(place)
    assert after[: len(before)] == before
    decided = [record for entry in place.entries() for record in entry.public_records()]
    assert place.rows(RELEASES) == [
        (0, i, r.time, r.key, r.value, msgspec.msgpack.encode(r.headers))
        for i, r in enumerate(decided)
    ]
    log = public(place)
    assert log.signatures.signed == len(log.messages)
    log.verify()


# Commands


@pytest.fixture
def file(sent: StudyFolder) -> Path:
    (sent.folder / "signing.pem").write_text(PEMS[0])
    sent.file.write_text(sent.text + '\n[run.signing]\nfile = "signing.pem"\n')
    return sent.file


def test_run_signs_and_verify_says_so(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    json_output(capsys, "run", file, "--until-idle")
    answer = json_output(capsys, "verify", file, "--key", OLD.public)
    assert "key: the one that was kept elsewhere" in answer["verified"]
    assert any(OLD.public in line for line in answer["verified"])
    assert NEW.public not in json.dumps(answer)
    assert "not the key kept elsewhere" in refusal(capsys, 4, "verify", file, "--key", NEW.public)
    assert "hexadecimal" in refusal(capsys, 2, "verify", file, "--key", "abc")
    # Who cannot check a signed log does not read it.
    for module in (signing, __import__("stream_dp.release.signatures", fromlist=["x"])):
        monkeypatch.setattr(module, "can_check", lambda: False)
    for command in ("verify", "releases"):
        assert "pip install '.[trust]'" in refusal(capsys, 2, command, file)
    with pytest.raises(UserError, match="is signed by ed25519"):
        stream_dp.open(f"sqlite:{file.parent / 'small-public.db'}")


def test_every_reader_takes_pins(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    json_output(capsys, "run", file, "--until-idle")
    log = stream_dp.open(f"sqlite:{file.parent / 'small-public.db'}", key=OLD.public)
    name = log.published[0].certificate.release
    kept = log.messages[1].hash
    out = str(tmp_path / "out.csv")
    for command in (
        ["releases", file],
        ["estimates", file, out],
        ["estimate", file, name],
        ["export", file, name, out],
        ["page", file, str(tmp_path / "page.html")],
    ):
        json_output(capsys, *command, "--key", OLD.public, "--head", kept)
        assert "not the key" in refusal(capsys, 4, *command, "--key", NEW.public)
        assert "not in its chain" in refusal(capsys, 4, *command, "--head", "0" * 64)
        assert "64 hexadecimal digits" in refusal(capsys, 2, *command, "--head", kept[:-1])
    assert stream_dp.open(f"sqlite:{file.parent / 'small-public.db'}", head=kept).head == log.head
    for pins in ({"key": NEW.public}, {"head": "0" * 64}):
        with pytest.raises(Inconsistent):
            stream_dp.open(f"sqlite:{file.parent / 'small-public.db'}", **pins)
    with pytest.raises(UserError, match="64 hexadecimal digits"):
        stream_dp.open(f"sqlite:{file.parent / 'small-public.db'}", head=kept[:-1])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1", "x"),
        ('file = "nothing.pem"', "cannot be read"),
        ('env = "STREAM_DP_NO_SUCH_KEY"', "is not set"),
        ('command = "false"', "does not print it"),
        ('command = "no-such-program-at-all"', "does not print it"),
        ('file = "rsa.pem"', "not an Ed25519 private key"),
        ('file = "small.toml"', "not an Ed25519 private key"),
        ('file = "signing.pem"\nenv = "HOME"', "name one place"),
    ],
)
def test_a_key_that_cannot_be_had_is_one_line(
    text: str, words: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file.parent / "rsa.pem").write_text(PEMS[0].replace("MC4CAQAw", "MC4CAQEw"))
    study = file.read_text().split("[run.signing]")[0]
    file.write_text(f"{study}[run.signing]\n{text}\n")
    error = refusal(capsys, 2, "run", file, "--until-idle")
    (line,) = error.splitlines()
    assert words in line
    assert PEMS[0].splitlines()[1] not in error


def test_a_secret_is_in_a_file_the_environment_or_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text("  words \n")
    monkeypatch.setenv("STREAM_DP_TEST_SECRET", "words\n")
    for declared in ({"file": "key"}, {"env": "STREAM_DP_TEST_SECRET"}, {"command": "cat key"}):
        assert secret_text("run.signing", declared, tmp_path) == "words"
