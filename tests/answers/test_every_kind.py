"""Every kind of release can be asked: in Python, by command and by the monitor, the same answer."""

from __future__ import annotations

import json
import math
from dataclasses import fields
from urllib.parse import urlencode

import pytest
from kit.kinds_of_releases import LABELS, published

from stream_dp.client import PublicLog
from stream_dp.errors import UserError
from stream_dp.release.answer import Answer
from stream_dp.services.commands import estimate
from stream_dp.services.commands.cli import main
from stream_dp.services.monitor.client_limits import Application
from stream_dp.services.monitor.forks import Work
from stream_dp.services.monitor.public_api import EstimateAnswer
from stream_dp.services.monitor.public_pages import public_pages
from stream_dp.services.monitor.public_program import answer_of
from stream_dp.services.monitor.public_state import read_state
from stream_dp.study.families import Kind

COMMON = {"release", "query", "period", "measure", "unit", "value", "standard_error", "interval"}
COMMON |= {"level", "method", "reason"}


@pytest.fixture(params=Kind, ids=lambda kind: kind.value)
def public(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> PublicLog:
    """The public log of a study with one release; `stream-dp estimate` reads the same log."""
    log = published(request.param)
    monkeypatch.setattr(estimate, "open_pinned", lambda _, keep: (PublicLog(log, keep), None))
    public = PublicLog(log)
    public.log = log  # type: ignore[attr-defined]
    return public


def by_command(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(["estimate", "the log", *words]) == code
    out, error = capsys.readouterr()
    return error if code else out


def application(public: PublicLog) -> Application:
    log = public.log  # type: ignore[attr-defined]
    return public_pages(read_state(log), lambda: log)


def by_monitor(application: Application, path: str, **asked: str) -> tuple[int, bytes]:
    work = Work({"method": "GET", "path": path, "query": urlencode(asked)})
    answered = answer_of(application, work)
    return answered.data["status"], answered.body


def test_every_example_has_an_answer_with_an_error_or_a_reason(public: PublicLog) -> None:
    examples = public.queries("answers")
    assert examples
    answers = [public.answer("answers", query) for query in examples]
    assert any(answer.standard_error is not None for answer in answers)
    for query, answer in zip(examples, answers, strict=True):
        assert isinstance(answer, Answer)
        assert (answer.release, answer.period) == ("answers", LABELS[-1])
        assert answer.unit
        assert answer.method
        assert answer.synthetic is not None
        if answer.standard_error is None:
            assert answer.reason, query
            assert answer.value == answer.synthetic or math.isnan(answer.value)
        else:
            assert answer.standard_error > 0
            assert not answer.reason
        if answer.interval is not None:
            low, high = answer.interval
            assert low <= answer.value <= high
        data = answer.as_dict()
        assert set(data) >= COMMON
        assert json.loads(json.dumps(data, allow_nan=False)) == data


def test_the_command_and_the_monitor_say_the_same(
    public: PublicLog, capsys: pytest.CaptureFixture[str]
) -> None:
    monitor = application(public)
    examples = public.queries("answers")
    listed = json.loads(by_command(capsys, "--json"))
    assert listed["answers"][: len(examples)] == examples
    assert json.loads(by_monitor(monitor, "/api/v1/queries")[1]) == {"answers": examples}
    for query in examples:
        expected = public.answer("answers", query)
        data = json.loads(json.dumps(expected.as_dict()))
        assert json.loads(by_command(capsys, "answers", query, "--json")) == data
        status, body = by_monitor(monitor, "/api/v1/estimate", release="answers", query=query)
        assert (status, json.loads(body)) == (200, {**data, "head": public.head})
        EstimateAnswer.model_validate_json(body, strict=True)
        text = by_command(capsys, "answers", query, "--long")
        assert text.startswith(f"{expected.query} at {expected.period}")
        assert expected.method in text
        if expected.standard_error is not None:
            measure = "" if expected.region is not None else expected.measure
            shown = estimate.NUMBER_TEXT.get(measure, "{:.5g}")
            assert shown.format(expected.standard_error) in text


def test_answers_together_are_the_answers_alone(public: PublicLog) -> None:
    query = next(
        query
        for query in public.queries("answers")
        if public.answer("answers", query).standard_error is not None
    )
    together = public.answers([("answers", query, None)])
    alone, (answer,) = public.answer("answers", query, unbiased=True), together.answers
    assert together.covariance[0, 0] == pytest.approx(alone.standard_error**2)
    for field in fields(Answer):
        if field.name not in {"synthetic", "padding", "bias", "fused"}:
            assert getattr(answer, field.name) == pytest.approx(getattr(alone, field.name))


@pytest.mark.parametrize("query", ["nothing of the kind", "x=1", "", "pattern 7"])
def test_an_unknown_query_is_one_line_that_says_what_can_be_asked(
    public: PublicLog, query: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UserError) as refused:
        public.answer("answers", query)
    (line,) = refused.value.lines
    assert line.startswith("query")
    known = ("write ", "did you mean", "the values are", "ask ", "there are ", "the release is")
    assert any(words in line for words in known), line
    assert by_command(capsys, "answers", query, code=2).count("\n") == 1
    status, _ = by_monitor(application(public), "/api/v1/estimate", release="answers", query=query)
    assert 400 <= status < 500


def test_regions_and_measures_go_with_the_releases_that_have_them(public: PublicLog) -> None:
    query, regions = public.queries("answers")[0], public.regions("answers")
    for region in regions or [("n",)]:
        if regions:
            assert public.answer("answers", query, region=region).region == region
        else:
            with pytest.raises(UserError, match="goes with sizes"):
                public.answer("answers", query, region=region)
    if regions:
        with pytest.raises(UserError, match="of sizes"):
            public.answer("answers", query, count=True)
    else:
        count, share = (public.answer("answers", query, count=c) for c in (True, False))
        assert (count.measure, share.measure) == ("count", "share")
        assert share == public.answer("answers", query)
