"""The witness: a restored pair of logs is refused, and a kill at any step is no fault."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from kit.commands import json_output, refusal
from kit.panels import PERIODS, StudyFolder
from kit.stops import Stop, killed_at, stop_at

from stream_dp.errors import Inconsistent
from stream_dp.log.log import Busy, Fenced, Record, Unavailable, UnknownCommit
from stream_dp.log.sqlite import SqliteLog
from stream_dp.services.storage.witness import WITNESS, Sight
from stream_dp.study.topics import RELEASES

STEPS = (
    *(("owned", 1), ("begun", 1), ("witnessed", 1), ("publish", 1), ("published", 1)),
    *(("drawn", 1), ("committed", 1), ("witnessed", 2)),
    *(("publish", 2), ("published", 2), ("cleaned", 2)),
)


@contextmanager
def witness(place: StudyFolder) -> Iterator[SqliteLog]:
    """The witness's log, a file elsewhere."""
    (place.folder / "elsewhere").mkdir(exist_ok=True)
    with closing(SqliteLog(place.folder / "elsewhere" / "witness.db", public=True)) as log:
        yield log


def run(place: StudyFolder, **how: Any) -> bool:
    with witness(place) as log:
        return place.run(witness=log, **how)


def seen(place: StudyFolder) -> list[Sight]:
    """All that the witness was shown."""
    with witness(place) as log:
        log.create({WITNESS: 1})
        records = log.read(WITNESS, {0: 0}, 1000, 0).records
    return [msgspec.json.decode(r.value or b"", type=Sight) for r in records]


def stopped(place: StudyFolder, step: str, call: int) -> None:
    with pytest.raises(Stop):
        run(place, at=stop_at(step, call))


def kept(place: StudyFolder, to: Path) -> Path:
    """A copy of the whole place, with everything but the witness."""
    shutil.copytree(place.folder, to, ignore=shutil.ignore_patterns("elsewhere"))
    return to


def put_back(place: StudyFolder, copy: Path) -> None:
    for path in place.folder.iterdir():
        if path.name != "elsewhere":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(copy, place.folder, dirs_exist_ok=True)


def test_every_decision_is_shown_before_it_is_published(sent: StudyFolder) -> None:
    public = []

    def at(name: str) -> None:
        if name == "publish":
            public.append((len(seen_now()), len(sent.published())))

    def seen_now() -> list[Record]:
        return log.read(WITNESS, {0: 0}, 1000, 0).records  # type: ignore[return-value]

    with witness(sent) as log:
        assert sent.run(witness=log, at=at)
    entries = sent.entries()
    assert seen(sent) == [Sight.of(entries[: i + 1]) for i in range(len(entries))]
    assert [count for count, _ in public] == list(range(1, PERIODS + 2))
    assert run(sent)
    assert len(seen(sent)) == len(entries)


@pytest.mark.parametrize(("step", "call"), STEPS)
def test_a_kill_is_no_fault(step: str, call: int, sent: StudyFolder) -> None:
    killed_at(lambda at: run(sent, at=at), step, call)
    before = sent.rows(RELEASES) if sent.public_db.exists() else []
    assert run(sent)
    assert sent.rows(RELEASES)[: len(before)] == before
    assert seen(sent)[-1] == Sight.of(sent.entries())


@pytest.mark.parametrize("call", [1, 2])
def test_a_restored_pair_is_refused(call: int, sent: StudyFolder, tmp_path: Path) -> None:
    """Journal, public log, marks and snapshots are all older, and agree with each other."""
    stopped(sent, "published", call)
    older = kept(sent, tmp_path / "older")
    stopped(sent, "published", 1)
    put_back(sent, older)
    before = sent.rows(RELEASES)
    with pytest.raises(Inconsistent, match="an older backup was restored"):
        run(sent, moved=True)
    assert sent.rows(RELEASES) == before


def test_without_a_witness_the_restored_pair_goes_on(sent: StudyFolder, tmp_path: Path) -> None:
    """What the witness is for: nothing inside sees it."""
    with pytest.raises(Stop):
        sent.run(at=stop_at("published", 2))
    older = kept(sent, tmp_path / "older")
    with pytest.raises(Stop):
        sent.run(at=stop_at("published", 1))
    put_back(sent, older)
    assert sent.run(moved=True)


def test_both_logs_gone_are_refused(sent: StudyFolder, tmp_path: Path) -> None:
    nothing = kept(sent, tmp_path / "nothing")
    stopped(sent, "published", 1)
    put_back(sent, nothing)
    with pytest.raises(Inconsistent, match="but the journal has 0: an older backup"):
        run(sent)
    assert sent.entries() == []


def test_a_decision_that_was_restored_before_it_was_public_is_taken_again(
    sent: StudyFolder, tmp_path: Path
) -> None:
    """The draw that was lost was shown to nobody."""
    stopped(sent, "cut", 1)
    older = kept(sent, tmp_path / "older")
    stopped(sent, "committed", 1)
    put_back(sent, older)
    assert run(sent, moved=True)


def test_another_copy_that_went_on_is_refused(sent: StudyFolder, tmp_path: Path) -> None:
    stopped(sent, "cut", 1)
    twin = kept(sent, tmp_path / "twin")
    assert run(sent)
    count = len(sent.entries())
    put_back(sent, twin)
    assert sent.run(moved=True)  # without the witness
    assert len(sent.entries()) >= count
    with pytest.raises(Inconsistent, match="is not the one that it has seen"):
        run(sent, moved=True)


def test_a_second_releaser_has_to_stop(sent: StudyFolder, tmp_path: Path) -> None:
    with witness(sent) as log, log_owned(log):
        with pytest.raises(Busy, match=r"witness: .*another process"), witness(sent) as other:
            sent.run(witness=other)


@contextmanager
def log_owned(log: SqliteLog) -> Iterator[None]:
    log.create({WITNESS: 1})
    with log.own(WITNESS, WITNESS):
        yield


def test_a_witness_that_somebody_else_advances_stops_the_draw(sent: StudyFolder) -> None:
    drawn = []

    def at(name: str) -> None:
        if name == "cut":
            with witness(sent) as other:
                other.append([Record(WITNESS, b'{"genesis":"a","entries":9,"head":"b"}')])
        drawn.extend([name] * (name == "drawn"))

    with pytest.raises(Fenced, match="another process has advanced it"):
        run(sent, at=at)
    assert drawn == []


def test_a_witness_that_does_not_answer_stops_what_would_be_published(
    sent: StudyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped(sent, "published", 1)
    before = sent.rows(RELEASES)
    with witness(sent) as log:

        def unavailable(*_: object) -> None:
            raise Unavailable("no answer")  # of which a commit makes an unknown one

        def at(name: str) -> None:
            if name == "committed":
                monkeypatch.setattr(log, "_insert", unavailable)

        with pytest.raises(UnknownCommit, match="witness: no answer"):
            sent.run(witness=log, at=at)
    assert sent.rows(RELEASES) == before
    monkeypatch.undo()
    assert run(sent)


def test_a_witness_that_is_new_to_a_study_is_declared_by_the_operator(sent: StudyFolder) -> None:
    with pytest.raises(Stop):
        sent.run(at=stop_at("published", 2))
    with pytest.raises(Inconsistent, match="give --new-witness once"):
        run(sent)
    assert run(sent, new_witness=True)
    assert run(sent)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\xff",
        b"[]",
        b"[" * 60_000,
        b'{"genesis": "a", "entries": 0, "head": "b"}',
        b'{"genesis": "a", "entries": -1, "head": "b"}',
        b'{"genesis": "a", "entries": 1e400, "head": "b"}',
        b'{"genesis": "a", "entries": 99999999999999999999, "head": "b"}',
    ],
)
def test_a_hostile_record_is_one_line(
    value: bytes, sent: StudyFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    (sent.folder / "elsewhere").mkdir()
    sent.file.write_text(sent.text + '\nwitness = "sqlite:elsewhere/witness.db"\n')
    with witness(sent) as log:
        log.create({WITNESS: 1})
        log.append([Record(WITNESS, value)])
    (line,) = refusal(capsys, 4, "run", sent.file, "--until-idle").splitlines()
    assert "witness" in line
    assert not sent.public_db.exists() or sent.published() == []


def test_commands_say_what_the_witness_has_seen(
    sent: StudyFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    (sent.folder / "elsewhere").mkdir()
    sent.file.write_text(sent.text + '\nwitness = "sqlite:elsewhere/witness.db"\n')
    json_output(capsys, "run", sent.file, "--until-idle")
    count = len(sent.entries())
    line = f"witness: has seen {count} decisions of {count}, the journal's own"
    assert line in json_output(capsys, "verify", sent.file)["verified"]
    with witness(sent) as log:
        ahead = Sight(Sight.of(sent.entries()).genesis, count + 1, "f" * 64)
        log.append([Record(WITNESS, msgspec.json.encode(ahead))])
    assert "an older backup" in refusal(capsys, 4, "verify", sent.file)
    assert "an older backup" in refusal(capsys, 4, "run", sent.file, "--until-idle")
    text = sent.file.read_text().replace("elsewhere/witness.db", "small-public.db")
    sent.file.write_text(text)
    assert "run.witness: is the log" in refusal(capsys, 2, "run", sent.file, "--until-idle")


@pytest.mark.parametrize("url", ["s3://bucket", "s3://", "http://a/b", "x"])
def test_an_address_that_is_none_is_one_line(
    url: str, sent: StudyFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    sent.file.write_text(sent.text + f'\nwitness = "{url}"\n')
    (line,) = refusal(capsys, 2, "run", sent.file, "--until-idle").splitlines()
    assert "run.witness" in line
    assert line.endswith("sqlite:FILE or kafka://host:port/prefix, or s3://BUCKET/OBJECT")
