"""`stream-dp regress` on every kind of release: as in Python, or one line that says why not."""

from __future__ import annotations

import json

import pytest
from kit.kinds_of_releases import published

from stream_dp.client import PublicLog
from stream_dp.errors import UserError
from stream_dp.services.commands import estimate
from stream_dp.services.commands.cli import main
from stream_dp.study.families import TABLE_FAMILIES, Kind

FORMULA = "work=yes ~ sex"


def by_command(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(["regress", "the log", *words]) == code
    out, error = capsys.readouterr()
    return error if code else out


@pytest.fixture
def public(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> PublicLog:
    log = published(request.param)
    monkeypatch.setattr(estimate, "open_pinned", lambda _, keep: (PublicLog(log, keep), None))
    return PublicLog(log)


TABLES = [kind for kind in Kind if kind.family in TABLE_FAMILIES]
OTHERS = [kind for kind in Kind if kind not in TABLES]


@pytest.mark.parametrize("public", TABLES, indirect=True, ids=lambda kind: kind.value)
@pytest.mark.parametrize("more", [[], ["--logistic"], ["--sampling"]])
def test_the_command_says_what_python_says(
    public: PublicLog, more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    known = {word.removeprefix("--"): True for word in more}
    try:
        expected = public.regress("answers", FORMULA, **known)
    except UserError as refused:
        (line,) = refused.lines
        assert "measured" in line or "noise" in line
        assert by_command(capsys, "answers", FORMULA, *more, code=2).count("\n") == 1
        return
    data = json.loads(by_command(capsys, "answers", FORMULA, *more, "--json"))
    assert data == json.loads(json.dumps(expected.as_dict()))
    assert expected.people == pytest.approx(60, abs=20)
    text = by_command(capsys, "answers", FORMULA, *more)
    assert text.startswith(f"{FORMULA} at {expected.period} ({expected.model}, ")
    assert ("with sampling" in text) == ("--sampling" in more)
    for c in expected.coefficients:
        assert f"{c.estimate:.5g}" in text


@pytest.mark.parametrize("public", OTHERS, indirect=True, ids=lambda kind: kind.value)
def test_other_releases_are_refused_in_one_line(
    public: PublicLog, capsys: pytest.CaptureFixture[str]
) -> None:
    error = by_command(capsys, "answers", FORMULA, code=2)
    assert error == "stream-dp: release 'answers': a regression needs a table of people\n"


@pytest.mark.parametrize("public", [Kind.MIXTURE], indirect=True)
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["answers", "income ~ sex"], "formula 'income ~ sex': 'income' is no column"),
        (["other", FORMULA], "release 'other'"),
        (["answers", FORMULA, "--period", "2030-01"], "2030-01"),
    ],
)
def test_a_mistake_is_one_line(
    public: PublicLog, words: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    error = by_command(capsys, *words, code=2)
    assert reason in error
    assert error.count("\n") == 1
