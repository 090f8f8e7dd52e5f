"""`audit`: each kind of release shows its declared cost, and too little noise is found."""

from __future__ import annotations

import json
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from kit.audited_studies import ONE_WINDOW, audited_study
from kit.commands import refusal
from kit.repeated_audits import KnownAnswers, found, known_answers
from kit.weak_noise import WeakNoise

import stream_dp
from stream_dp.errors import UserError
from stream_dp.privacy.noise import SeededNoise, SystemNoise
from stream_dp.services.audit import audit as command
from stream_dp.services.audit.audit import RUNS, PreparedAudit
from stream_dp.services.commands.cli import main
from stream_dp.study.families import Kind


def prepared(tables: dict[str, Any]) -> PreparedAudit:
    study = stream_dp.parse_study(tables)
    release = study.declared("answers")
    assert release is not None
    return PreparedAudit.of(study, release)


@cache
def prepared_kind(kind: Kind) -> PreparedAudit:
    """The audit of a kind's release; its fits are compiled once."""
    return prepared(audited_study(kind))


@cache
def known_kind(kind: Kind) -> KnownAnswers:
    """The answers of a kind without choices, which whole runs have shown."""
    known = known_answers(prepared_kind(kind), SeededNoise(7))
    assert known is not None
    return known


# The worst pair's share of the declared rho, where a part of rho pays for choices, or where the
# charge of events is an upper bound.
SHARES = {Kind.MWEM: 0.92, Kind.HPD_FIXED: 0.92, Kind.HPD_GEN: 0.92, Kind.HPD_EVENTS: 0.796}

# Kinds whose fits take long: fewer runs in the suite, which find a quarter of the variance.
HPD = {Kind.HPD_FIXED, Kind.HPD_GEN, Kind.HPD_EVENTS}
# Their answers differ by run. `benchmarks/weak_audits.py` has their figures.
CHOOSING = {Kind.MWEM, *HPD}
FEW_RUNS = {Kind.TABLE, Kind.MIXTURE, Kind.RAP, Kind.MATCH, Kind.SIZES, Kind.MWEM, *HPD}


@pytest.mark.parametrize(
    "kind",
    [pytest.param(k, marks=[pytest.mark.slow] * (k in HPD)) for k in Kind],
)
def test_a_kind_shows_its_declared_cost(kind: Kind) -> None:
    """By whole runs of kinds that make choices, by the known answers of the others."""
    few = kind in CHOOSING
    if few:
        runs = {Kind.HPD_EVENTS: 40, Kind.HPD_FIXED: 18, Kind.HPD_GEN: 18, Kind.MWEM: 25}[kind]
        result = prepared_kind(kind).run(SeededNoise(1), runs)
    else:
        result = known_kind(kind).audit(SeededNoise(1), 250)
    assert result.pair_rho == pytest.approx(SHARES.get(kind, 1) * float(result.rho), rel=0.01)
    assert not result.violation
    least, most = (0.3, 1.5) if few else (0.6, 1.2)
    assert least < result.lower_bound / result.pair_rho < most
    assert 0.1 < result.counted_bound / result.pair_rho < 1


# Kinds without choices: audits that take seconds find half of the variance, below.
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(k, marks=[pytest.mark.slow] * (k not in {Kind.WINDOW, Kind.SIZES}))
        for k in Kind
    ],
)
def test_too_little_noise_is_a_violation(kind: Kind) -> None:
    share, runs = (Fraction(1, 4), 25) if kind in FEW_RUNS else (Fraction(1, 2), 200)
    if kind == Kind.HPD_EVENTS:
        share, runs = Fraction(1, 8), 250  # its runs measure other marginals each time
    result = prepared_kind(kind).run(WeakNoise(SeededNoise(2), share), runs)
    assert result.violation
    assert result.lower_bound > 1.1 * result.rho


@pytest.mark.parametrize(
    "kind", [pytest.param(Kind.MIXTURE, marks=pytest.mark.slow), Kind.MATCH, Kind.SIZES]
)
def test_a_data_set_that_people_join_costs_what_it_declares(kind: Kind) -> None:
    result = prepared(audited_study(kind, "add_remove")).run(SeededNoise(3), 15)
    assert result.pair_rho == pytest.approx(0.5)
    assert not result.violation
    assert result.lower_bound > 0.15


def test_a_release_that_people_join_is_audited_with_somebody_or_nobody() -> None:
    result = prepared(audited_study(Kind.WINDOW, "add_remove")).run(SeededNoise(4), 200)
    assert result.pair_rho == pytest.approx(0.5)
    assert not result.violation
    assert result.lower_bound > 0.35


def test_a_large_population_is_audited_by_a_small_one_with_the_same_noise() -> None:
    tables = audited_study(Kind.WINDOW, rho="1/1000")
    tables["study"]["population"]["size"] = 10**7
    result = prepared(tables).run(SeededNoise(5), 200)
    assert result.scores.size > 50
    assert result.lower_bound > 0.0007


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(Kind))
def test_most_of_the_declared_cost_is_shown(kind: Kind) -> None:
    """With the product's noise and the default runs; fails by chance in less than 1 % of runs."""
    result = prepared_kind(kind).run(SystemNoise(), RUNS)
    assert not result.violation
    # The pair is the worst of a few runs. Other runs of a model of events select other marginals.
    least = 0.55 if kind == Kind.HPD_EVENTS else 0.85
    assert result.lower_bound > least * result.pair_rho


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind not in CHOOSING])
def test_half_the_variance_is_found_in_19_of_20_audits(kind: Kind) -> None:
    """And the declared variance in none; two false alarms have a probability below 1e-4."""
    weak, known = WeakNoise(SystemNoise(), Fraction(1, 2)), known_kind(kind)
    assert found(lambda: known.audit(weak, 250), 20) >= 19
    assert found(lambda: known.audit(SystemNoise(), 250), 20) <= 1


@pytest.fixture
def study_file(tmp_path: Path) -> Path:
    (tmp_path / "study.toml").write_text(ONE_WINDOW)
    return tmp_path / "study.toml"


def test_the_command_opens_no_log(study_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", str(study_file), "answers", "--runs", "100", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["rho_declared"] == 1
    assert data["confidence"] == 0.95
    assert data["runs"] == 100
    assert data["violation"] is False
    assert 0 < data["rho_lower_bound_counted"] < data["rho_lower_bound"]
    assert [path.name for path in study_file.parent.iterdir()] == ["study.toml"]


def test_without_a_release_all_are_audited_together(
    study_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gated = study_file.read_text().replace("rho = 1\ndelta", "rho = 2\ndelta")
    study_file.write_text(gated + '[study.gate]\nrho = 1\nleast = "1/2"\n')
    assert main(["audit", str(study_file), "--runs", "60", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["rho_declared"] == 2
    assert data["rho_of_pair"] == pytest.approx(2)
    assert data["release"] is None
    assert main(["audit", str(study_file), "--runs", "60"]) == 0
    lines = capsys.readouterr().out
    assert "audit of all releases in trial" in lines
    assert "[study.gate] alone: rho is at least" in lines


def test_sizes_are_audited_alone() -> None:
    study = stream_dp.parse_study(audited_study(Kind.SIZES))
    with pytest.raises(UserError, match="'answers' are audited alone"):
        PreparedAudit.of(study)


def test_a_violation_is_an_exit_code_of_its_own(
    study_file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    weak = WeakNoise(SeededNoise(6), Fraction(1, 2))
    monkeypatch.setattr(command, "SystemNoise", lambda: weak)
    assert main(["audit", str(study_file), "answers", "--runs", "200"]) == 6
    assert "VIOLATION" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["other"], "release 'other': the study declares answers"),
        (["answers", "--runs", "3"], "--runs: at least 50"),
        (["answers", "--runs", "9" * 23], "--runs: 1,000,000 runs are the most"),
    ],
)
def test_a_mistake_is_one_line_of_the_audit(
    options: list[str], words: str, study_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (line,) = refusal(capsys, 2, "audit", study_file, *options).splitlines()
    assert words in line


def test_sizes_from_a_table_of_counts_are_refused_in_one_line() -> None:
    tables = audited_study(Kind.SIZES)
    del tables["releases"][0]["attribute"], tables["study"]["periods"]
    tables["study"]["periods"] = {"first": 1, "every": "step", "count": 1}
    tables["releases"][0]["every"] = 1
    tables["places"]["counted"] = True
    tables["attributes"] = {}
    with pytest.raises(UserError, match="measured from a table of counts"):
        prepared(tables)
