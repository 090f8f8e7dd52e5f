"""The public topic of answers: once each, whatever happens, and from published bytes alone."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from kit.json_schemas import validate
from kit.panels import LABELS, PERIODS, StudyFolder, markers, report
from kit.public_logs import TopicInMemory, log_in_memory, published, with_weights
from kit.studies import attribute, small_study, window

from stream_dp.answers.flat_answers import FlatAnswer, flat_answers, weighted_answers
from stream_dp.client import PublicLog
from stream_dp.errors import Inconsistent
from stream_dp.log.log import Record
from stream_dp.log.message import Message, build_message, message_records
from stream_dp.privacy.noise import SeededNoise
from stream_dp.release.published_panels import WEIGHTS_TYPE
from stream_dp.services.releaser.answer_topic import (
    CONNECT_SCHEMA,
    KEY,
    AnswerTopic,
    answer_avro,
    answer_records,
    answer_schema,
)
from stream_dp.study import Study
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


@pytest.fixture(autouse=True)
def few_reruns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stream_dp.answers.error_weights.RERUNS", 2)


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


@pytest.mark.parametrize(
    ("step", "times"),
    [("published", 1), ("answered", 1), ("published", 2), ("answered", 2), ("committed", 2)],
)
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
    sent: StudyFolder, stop: tuple[str, int] | None
) -> None:
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


class CountedReads(TopicInMemory):
    """A public log in memory, and the number of records that are read of it."""

    read_records = 0

    def read(self, topic, positions, limit, timeout):
        batch = super().read(topic, positions, limit, timeout)
        self.read_records += len(batch.records)
        return batch


class Committed:
    """A writer that keeps what is committed."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def commit(self, records: list[Record]) -> None:
        self.records += records


def weighted_messages(periods: int) -> tuple[Study, list[Message]]:
    """A study, and its public messages with weights after every release."""
    study = small_study(
        rho=1,
        size=6,
        periods={"first": "2021-01", "every": "month", "count": periods},
        attributes={"work": attribute([0, 1], missing=0)},
        releases=[window("work", "work", width=1, rho=1)],
    )
    declared, *releases = published(
        study, {"work": np.zeros((6, periods), np.uint8)}, SeededNoise(1)
    )
    messages = [declared]
    for release in releases:
        messages.append(
            build_message(len(messages), messages[-1].hash, release.head, release.parts)
        )
        messages = with_weights(messages)
    return study, messages


def test_weights_read_only_what_came_since_the_weights_before() -> None:
    study, messages = weighted_messages(5)
    records = [
        message_records(message, RELEASES, kind="k", source="s", content="c", time=None)
        for message in messages
    ]
    topic, writer = None, Committed()
    for end in range(1, len(messages) + 1):
        log = CountedReads(record for of_message in records[:end] for record in of_message)
        topic = topic or AnswerTopic(study, log, writer)  # type: ignore[arg-type]
        topic.public = log  # type: ignore[assignment]
        topic.add(records[end - 1])
        if messages[end - 1].head["type"] != WEIGHTS_TYPE:
            assert log.read_records == 0
        elif end > 3:  # the release, its weights, and again the weights before them
            assert log.read_records == sum(map(len, records[end - 3 : end]))
        else:
            assert log.read_records == sum(map(len, records[:end]))
    found = [json.loads(record.value or b"")["payload"] for record in writer.records]
    for i in range(2, len(messages), 2):
        public = PublicLog(log_in_memory(messages[: i + 1]))
        stated = weighted_answers(public, "work", messages[i].hash)
        assert [a for a in found if a["message"] == messages[i].hash] == [
            answer._asdict() for answer in stated
        ]


def test_a_log_that_lost_what_was_read_is_not_extended() -> None:
    _, messages = weighted_messages(2)
    public = PublicLog(log_in_memory(messages))
    public.extend(log_in_memory(messages))
    assert len(public.messages) == len(messages)
    with pytest.raises(Inconsistent, match="is not there any more"):
        public.extend(log_in_memory(messages[:-1]))
    other = build_message(
        len(messages) - 1, messages[-2].hash, messages[-3].head, messages[-3].parts
    )
    with pytest.raises(Inconsistent, match="is another one by now"):
        public.extend(log_in_memory([*messages[:-1], other]))


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
