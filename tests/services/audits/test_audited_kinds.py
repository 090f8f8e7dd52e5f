"""`audit`: each kind of release shows its declared cost, and too little noise is found."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from kit.commands import refusal
from kit.kinds_of_releases import study_of

import stream_dp
from stream_dp.errors import UserError
from stream_dp.privacy.noise import Draw, SystemNoise
from stream_dp.services.audits.audit import ALARM, AUDITED, AuditResult, audit, group_size
from stream_dp.services.audits.rho_bounds import gaussian_bound
from stream_dp.services.cli import main
from stream_dp.services.commands import audit as command
from stream_dp.study.families import KINDS, Family, Kind

STUDY = """
[study]
name = "trial"
unit = "person"
neighbours = "replace_one"
rho = 1
delta = 1e-6
[study.periods]
first = 1
every = "step"
count = 2
[study.population]
size = 20
[attributes.work]
values = ["no", "yes"]
missing = "no"
[[releases]]
name = "answers"
kind = "window"
attribute = "work"
width = 1
rho = 1
[run]
log = "sqlite:trial.db"
"""


class HalvedNoise(SystemNoise):
    """The product's noise, with half the variance that a mechanism demands."""

    def draw(self, demand: Sequence[tuple[Fraction, int]]) -> Draw:
        return super().draw([(variance / 2, size) for variance, size in demand])


class QuarteredNoise(HalvedNoise):
    """The product's noise, with a quarter of the variance that a mechanism demands."""

    def draw(self, demand: Sequence[tuple[Fraction, int]]) -> Draw:
        return super().draw([(variance / 2, size) for variance, size in demand])


def declared(kind: Kind, relation: str | None = None, rho: str = "1/2") -> dict[str, Any]:
    """A small study with one release of a kind, at a usual budget."""
    tables: dict[str, Any] = study_of(kind)
    release = tables["releases"][0]
    tables["study"] |= {"rho": rho}
    release |= {"rho": rho}
    if KINDS[kind].family is Family.PEOPLE:
        for key in ("first", "rounds", "per_round"):
            release.pop(key, None)
        release["every"] = 2
    if relation is not None:
        tables["study"]["neighbours"] = relation
    if relation == "add_remove":
        del tables["study"]["population"]
    return tables


def audited(tables: dict[str, Any], source: SystemNoise, runs: int) -> AuditResult:
    study = stream_dp.parse_study(tables)
    release = study.declared("answers")
    assert release is not None
    return audit(study, release, source, runs=runs)


# What the worst pair costs of the declared rho, where the charge is an upper bound.
SHARES = {
    Kind.MWEM: 0.92,  # a part of rho pays for choices
    Kind.HPD_FIXED: 0.92,
}


# Kinds whose fits take long: fewer runs in the suite, which find a quarter of the variance.
FEW_RUNS = {Kind.MIXTURE, Kind.RAP, Kind.MATCH, Kind.MWEM, Kind.HPD_FIXED}


@pytest.mark.parametrize("kind", list(Kind))
def test_a_kind_shows_its_declared_cost(kind: Kind) -> None:
    """Fails by chance in one of 10,000 runs."""
    result = audited(declared(kind), SystemNoise(), runs=60 if kind in FEW_RUNS else 200)
    assert result.pair_rho == pytest.approx(SHARES.get(kind, 1) * float(result.rho), rel=0.01)
    assert not result.violation
    least, most = (0.2, 1.6) if kind in FEW_RUNS else (0.55, 1.3)
    assert least < result.lower_bound / result.pair_rho < most
    assert 0.1 < result.counted_bound / result.pair_rho < 1


@pytest.mark.parametrize("kind", list(Kind))
def test_too_little_noise_is_a_violation(kind: Kind) -> None:
    few = kind in FEW_RUNS
    source, runs = (QuarteredNoise(), 60) if few else (HalvedNoise(), 250)
    result = audited(declared(kind), source, runs)
    assert result.violation
    assert result.lower_bound > 1.1 * result.rho


@pytest.mark.parametrize("kind", [Kind.MIXTURE, Kind.MATCH, Kind.SIZES])
def test_a_data_set_that_people_join_costs_what_it_declares(kind: Kind) -> None:
    result = audited(declared(kind, "add_remove"), SystemNoise(), runs=60)
    assert result.pair_rho == pytest.approx(0.5)
    assert not result.violation
    assert result.lower_bound > 0.1


def test_a_release_that_people_join_is_audited_with_somebody_or_nobody() -> None:
    result = audited(declared(Kind.WINDOW, "add_remove"), SystemNoise(), runs=400)
    assert result.pair_rho == pytest.approx(0.5)
    assert not result.violation
    assert result.lower_bound > 0.38


def test_a_large_population_is_audited_by_a_small_one_with_the_same_noise() -> None:
    tables = declared(Kind.WINDOW, rho="1/1000")
    tables["study"]["population"]["size"] = 10**7
    result = audited(tables, SystemNoise(), runs=300)
    assert result.scores.size > 50
    assert result.lower_bound > 0.00075


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in Kind if kind not in FEW_RUNS])
def test_half_the_variance_is_found_in_99_of_100_audits(kind: Kind) -> None:
    study = stream_dp.parse_study(declared(kind))
    release = study.declared("answers")
    assert release is not None
    audited_release = AUDITED[release.family](study, release)
    pair = audited_release.worst_pair()
    size, found = group_size(audited_release, pair), 0
    for _ in range(100):
        scores = audited_release.scores(pair, size, 250, HalvedNoise(), lambda: None)
        found += gaussian_bound(scores, ALARM) > audited_release.rho
    assert found >= 99


@pytest.fixture
def study_file(tmp_path: Path) -> Path:
    (tmp_path / "study.toml").write_text(STUDY)
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


def test_a_violation_is_an_exit_code_of_its_own(
    study_file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "SystemNoise", HalvedNoise)
    assert main(["audit", str(study_file), "answers", "--runs", "200"]) == 6
    assert "VIOLATION" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["other"], "release 'other': the study declares answers"),
        (["answers", "--runs", "3"], "--runs: at least 50"),
    ],
)
def test_a_mistake_is_one_line_of_the_audit(
    options: list[str], words: str, study_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (line,) = refusal(capsys, 2, "audit", study_file, *options).splitlines()
    assert words in line


def test_sizes_from_a_table_of_counts_are_refused_in_one_line() -> None:
    tables = declared(Kind.SIZES)
    del tables["releases"][0]["attribute"], tables["study"]["periods"]
    tables["study"]["periods"] = {"first": 1, "every": "step", "count": 1}
    tables["releases"][0]["every"] = 1
    tables["places"]["counted"] = True
    tables["attributes"] = {}
    with pytest.raises(UserError, match="measured from a table of counts"):
        audited(tables, SystemNoise(), runs=50)
