"""`share`: one number is the price of a study."""

from __future__ import annotations

import tomllib
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from kit.studies import attribute, study_tables

from stream_dp.errors import UserError
from stream_dp.planning.plan import plan_study
from stream_dp.planning.study_summary import summary
from stream_dp.study import Study
from stream_dp.study.study_text import study_text
from stream_dp.studyfile import parse_study

QUESTIONS = {"work": attribute(["yes", "no"], "no"), "sex": attribute(["f", "m"], "f")}
PATTERNS = {"name": "patterns", "kind": "window", "attribute": "work", "width": 2}
TABLES = {"name": "people", "kind": "table", "attributes": ["work", "sex"], "every": 1}


def declared(*releases: dict[str, Any], rho: str = "1/10", **head: Any) -> Study:
    tables = study_tables(attributes=QUESTIONS, releases=list(releases))
    tables["study"] |= {"rho": rho, "delta": "1e-6", **head}
    return parse_study(tables)


def test_a_share_is_of_all_periods_and_all_data_sets_of_a_release() -> None:
    shared = declared({**PATTERNS, "share": "1/3"}, {**TABLES, "share": "2/3"})
    priced = declared({**PATTERNS, "rho": "1/30"}, {**TABLES, "rho": "2/90"})
    assert shared == priced
    assert shared.hash == priced.hash
    assert plan_study(shared).total == shared.rho


def test_the_price_changes_in_one_place() -> None:
    gate = {"share": "1/4", "least": "1/2"}
    releases = {**PATTERNS, "share": "1/4"}, {**TABLES, "share": "1/2"}
    once, twice = declared(*releases, gate=gate), declared(*releases, gate=gate, rho="1/5")
    for study in (once, twice):
        assert plan_study(study).total == study.rho
        assert study.gate is not None
        assert study.gate.rho == study.rho / 4
    assert twice.releases[0].rho == 2 * once.releases[0].rho


def test_a_file_has_the_shares_again() -> None:
    study = declared({**PATTERNS, "share": "1/3"}, {**TABLES, "share": "1/2"})
    text = study_text(study)
    assert text.count("rho = ") == 1
    assert 'share = "1/3"' in text
    assert "share = 0.5" in text
    assert parse_study(tomllib.loads(text, parse_float=Decimal)) == study


def test_the_check_has_share_and_rho() -> None:
    text = summary(plan_study(declared({**PATTERNS, "share": "1/3"}))).text()
    assert "patterns (window): share 1/3, rho = 0.0333333" in text


FAULTS: dict[str, dict[str, Any]] = {
    "releases[1].share: is required": {},
    "releases[1]: declare share or rho, not both": {"share": "1/2", "rho": "1/20"},
    "releases[1].share: must be above 0 and at most 1": {"share": 2},
    "releases[1].share: write a number such as 0.005": {"share": "half"},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_share_is_one_line(fault: str) -> None:
    with pytest.raises(UserError) as refused:
        declared({**PATTERNS, **FAULTS[fault]})
    assert [line.startswith(fault) for line in refused.value.lines] == [True]


def test_shares_add_up_to_at_most_one() -> None:
    half = Fraction(1, 2)
    exactly = declared({**PATTERNS, "share": half}, {**TABLES, "share": half})
    assert plan_study(exactly).total == exactly.rho
    with pytest.raises(UserError, match=r"0.1 more than study.rho = 0.1; lower the shares"):
        declared({**PATTERNS, "share": 1}, {**TABLES, "share": 1})
