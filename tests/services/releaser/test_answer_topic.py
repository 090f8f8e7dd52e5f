"""The public topic of answers: once each, whatever happens, and from published bytes alone."""

from __future__ import annotations

import io
import json

import pytest
from kit.json_schemas import validate
from kit.panels import LABELS, PERIODS, StudyFolder, markers, report

from stream_dp.answers.flat_answers import FlatAnswer, flat_answers
from stream_dp.client import PublicLog
from stream_dp.services.releaser.answer_topic import (
    CONNECT_SCHEMA,
    KEY,
    answer_avro,
    answer_records,
    answer_schema,
)
from stream_dp.study.topics import ESTIMATES, RELEASES


class Killed(Exception):
    """The releaser was stopped at a step."""


def stop_at(step: str, times: int):
    seen = []

    def at(name: str) -> None:
        seen.append(name)
        if seen.count(step) == times:
            raise Killed

    return at


@pytest.fixture
def sent(place: StudyFolder) -> StudyFolder:
    place.send([report(0, "p", label, {"work": "yes"}) for label in LABELS])
    place.send(markers(PERIODS))
    return place


def records(place: StudyFolder):
    with place.public() as public:
        return public.read(ESTIMATES, {0: 0}, 100_000, 0).records


def answers(place: StudyFolder):
    return [json.loads(record.value)["payload"] for record in records(place)]


def expected(place: StudyFolder):
    """The answers that anybody computes from the public log."""
    with place.public() as log:
        public = PublicLog(log)
    every = [flat_answers(public.study, release) for release in public.published]
    return [answer._asdict() for answers in every for answer in answers]


def test_the_topic_has_the_answers_of_every_publication(sent: StudyFolder) -> None:
    assert sent.run(estimates=True)
    assert answers(sent) == expected(sent)
    assert {json.loads(r.value)["schema"]["name"] for r in records(sent)} == {"stream-dp.estimate"}
    keys = [json.loads(record.key) for record in records(sent)]
    assert keys == [[answer[name] for name in KEY] for answer in answers(sent)]
    assert len({tuple(key) for key in keys}) == len(keys)
    with sent.public() as public:
        releases = public.read(RELEASES, {0: 0}, 100_000, 0).records
    assert {record.time for record in records(sent)} <= {record.time for record in releases}


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("step", ["published", "publish", "answered", "committed"])
def test_a_crash_at_any_step_neither_loses_nor_repeats_an_answer(
    sent: StudyFolder, step: str, times: int
) -> None:
    with pytest.raises(Killed):
        sent.run(estimates=True, at=stop_at(step, times))
    assert sent.run(estimates=True)
    assert answers(sent) == expected(sent)
    assert sent.run(estimates=True)
    assert answers(sent) == expected(sent)


def test_a_study_that_has_begun_gets_all_its_answers(sent: StudyFolder) -> None:
    with pytest.raises(Killed):
        sent.run(at=stop_at("published", 3))
    assert sent.run(estimates=True)
    assert answers(sent) == expected(sent)


@pytest.mark.parametrize(
    "stop", [None, ("weights-committed", 1), ("published", PERIODS + 2), ("answered", PERIODS + 2)]
)
def test_weights_bring_the_default_answers_once(
    sent: StudyFolder, stop: tuple[str, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_dp.answers.error_weights.RERUNS", 3)
    if stop is not None:
        with pytest.raises(Killed):
            sent.run(estimates=True, weights=True, at=stop_at(*stop))
    assert sent.run(estimates=True, weights=True)
    stated = expected(sent)
    found = answers(sent)
    assert found[: len(stated)] == stated
    with sent.public() as log:
        public = PublicLog(log)
    weights = {w.message.hash for w in public.weights.values()}
    assert {answer["message"] for answer in found[len(stated) :]} == weights
    keys = [tuple(answer[name] for name in KEY) for answer in found[len(stated) :]]
    assert len({*keys}) == len(keys)
    assert {*keys} == {tuple(a[n] for n in KEY) for a in stated if a["period"] == LABELS[-1]}
    for answer in found[len(stated) :: 7]:
        default = public.answer(
            answer["release"],
            answer["query"],
            answer["period"],
            count=answer["measure"] == "count",
        )
        numbers = [default.value, default.standard_error, *default.interval]
        assert [answer[n] for n in ("value", "error", "lower", "upper")] == pytest.approx(numbers)
        assert answer["method"] == default.method
        assert answer["people"] == (default.base if answer["measure"] == "share" else None)
        alone = default.unbiased and default.unbiased.value
        assert answer["unbiased"] == (alone and pytest.approx(alone))
    assert sent.run(estimates=True, weights=True)
    assert answers(sent) == found


def test_the_releases_are_the_same_with_and_without_the_topic(sent: StudyFolder, tmp_path) -> None:
    copy = sent.copy(tmp_path / "copy")
    assert sent.run(estimates=True)
    assert copy.run()
    tables = []
    for folder in (sent, copy):
        with folder.public() as log:
            releases = PublicLog(log).releases
        tables.append([(r.certificate, r.measurements.to_pydict()) for r in releases])
    assert tables[0] == tables[1]


def test_the_schema_for_connect_is_that_of_the_answers(sent: StudyFolder) -> None:
    assert sent.run(estimates=True)
    for answer in answers(sent):
        validate(answer, answer_schema())
    fields = [field["field"] for field in CONNECT_SCHEMA["fields"]]
    assert fields == [*answer_schema()["properties"]]
    assert {f["field"] for f in CONNECT_SCHEMA["fields"] if f["optional"]} == {
        "people",
        "error",
        *("lower", "upper"),
        *("unbiased", "unbiased_error", "unbiased_lower", "unbiased_upper"),
    }


def test_answers_are_avro_with_the_id_of_their_schema(sent: StudyFolder) -> None:
    fastavro = pytest.importorskip("fastavro")
    schema = fastavro.parse_schema(answer_avro())
    assert sent.run(estimates=True, estimates_schema=258)
    read = []
    for record in records(sent):
        stream = io.BytesIO(record.value)
        assert stream.read(5) == b"\0" + (258).to_bytes(4, "big")
        read.append(fastavro.schemaless_reader(stream, schema, None))
        assert stream.read() == b""
        assert record.header("content-type") == b"application/avro"
    assert read == expected(sent)
    assert sent.run(estimates=True, estimates_schema=258)
    assert len(records(sent)) == len(read)


def test_texts_and_missing_numbers_are_encoded_as_avro_libraries_do() -> None:
    fastavro = pytest.importorskip("fastavro")
    schema = fastavro.parse_schema(answer_avro())
    for length in (0, 1, 63, 64, 8191, 8192, 70_000):
        text = "\u00e9" * length
        answer = FlatAnswer(
            *("s", "r", "p", "", text, "share", "persons", "all persons"),
            0.1,
            None,
            None,
            -1e300,
            0.95,
            *("least error", None, -0.0, 1e9, 2.5),
            "m",
            True,
        )
        (record,) = answer_records([answer], None, 1)
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, answer._asdict())
        assert record.value is not None
        assert record.value[5:] == out.getvalue()
