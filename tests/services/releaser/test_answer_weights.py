"""Weights of answers: decided once after a publication, also after a kill, and never before it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from kit.panels import PERIODS, StudyFolder, script
from kit.stops import killed_at
from kit.verifiers import verdicts

from stream_dp.client import PublicLog
from stream_dp.errors import Inconsistent
from stream_dp.release.published_panels import WEIGHTS_TYPE
from stream_dp.services.commands.cli import main
from stream_dp.services.releaser import answer_topic
from stream_dp.services.storage.journal_heads import WeightsHead
from stream_dp.study.topics import RELEASES
from stream_dp.studyfile import load_study


@pytest.fixture(autouse=True)
def few_reruns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stream_dp.answers.error_weights.RERUNS", 3)


@pytest.fixture
def sent(tmp_path: Path) -> StudyFolder:
    place = StudyFolder(tmp_path / "sent")
    for records in script():
        place.send(records)
    return place


def public(place: StudyFolder) -> PublicLog:
    with place.public(readonly=True) as log:
        return PublicLog(log)


def check(place: StudyFolder, calm: list[str]) -> None:
    """The public log is what the journal decided, and has the weights of the last period once."""
    decided = [record for entry in place.entries() for record in entry.public_records()]
    assert place.rows(RELEASES) == [
        (0, i, r.time, r.key, r.value, msgspec.msgpack.encode(r.headers))
        for i, r in enumerate(decided)
    ]
    log = public(place)
    log.verify()
    assert list(log.weights) == calm
    weighted = [e.number for e in place.entries() if isinstance(e.head, WeightsHead)]
    assert weighted[-1] == PERIODS
    assert len({*weighted}) == len(weighted)


@pytest.fixture
def names(sent: StudyFolder) -> list[str]:
    study, _ = load_study(sent.file)
    return [release.name for release in study.releases]


def test_weights_follow_the_last_publication(
    sent: StudyFolder, names: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert sent.run(weights=True)
    check(sent, names)
    answer = public(sent).answer(names[0], public(sent).queries(names[0])[0])
    assert answer.method in ("least error", "best linear unbiased")
    together = ["estimate", str(sent.file), names[0], answer.query, "--each-period", "--count"]
    assert main(together) == 0
    text = capsys.readouterr().out
    assert text.startswith("unbiased counts, standard errors")
    assert "one query alone has an answer of least error" in text
    with sent.public(readonly=True) as log:
        *_, last = log.read(RELEASES, {0: 0}, 10_000, 0).records
    assert json.loads(last.value or b"")["type"] == WEIGHTS_TYPE
    assert main(["verify", str(sent.file), "--all"]) == 0
    line = f"weights: of {', '.join(names)}, as they follow from the panels"
    assert line in capsys.readouterr().out


def test_a_study_without_weights_has_none(sent: StudyFolder) -> None:
    assert sent.run()
    assert public(sent).weights == {}


# From one commit to the next and to the publication a kill finds the same files.
@pytest.mark.parametrize(
    ("step", "call"),
    [("weights-commit", 1), ("weights-committed", 1), ("published", PERIODS + 2)],
)
def test_a_kill_loses_no_weights_and_repeats_none(
    step: str, call: int, sent: StudyFolder, names: list[str]
) -> None:
    killed_at(lambda at: sent.run(at=at, weights=True), step, call)
    before = sent.rows(RELEASES)
    assert sent.run(weights=True)
    assert sent.rows(RELEASES)[: len(before)] == before
    check(sent, names)


def test_weights_that_fail_leave_the_releases(
    sent: StudyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(log: PublicLog) -> None:
        raise Inconsistent("no such counts")

    monkeypatch.setattr(answer_topic, "missing_weights", fail)
    told: list[Any] = []
    assert sent.run(weights=True, tell=told.append)
    assert [event.message for event in told if event.name == "weights-failed"] == [
        "answers stay unbiased, because no weights could be computed: no such counts"
    ]
    public(sent).verify()
    assert public(sent).weights == {}


def test_the_browsers_verifier_reads_weights(sent: StudyFolder) -> None:
    assert sent.run(weights=True)
    ((code, verdict),) = verdicts([(sent.public_db, {})])
    assert (code, verdict["holds"]) == (0, True)
