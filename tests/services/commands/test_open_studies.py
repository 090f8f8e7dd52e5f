"""People who come and go, in real panels: union members with years missing, students who withdraw.

Under add_remove the number of people is private: the panel has a declared cap of rows, those who
are absent are never counted, and shares are of those present, or of those who have entered.
Noise is the operating system's; estimates are tested against 4.5 standard errors.
"""

import csv

import numpy as np
import pyarrow.parquet
import pytest
from kit.real_panels import PANELS, PanelStudy
from kit.studies import attribute, cumulative, joint, study_toml, window

pytestmark = pytest.mark.skipif(
    not PANELS.is_dir(), reason="needs the real panels in ../shared/data/panels"
)


def open_study(count, rows):
    """The text of a study of that many periods, whose panels have at most `rows` rows."""
    return study_toml(
        name="open",
        neighbours="add_remove",
        rho=3,
        periods={"first": "1", "every": "step", "count": count},
        size=None,
        attributes={"answered": attribute([0, 1], missing="absent")},
        releases=[
            window("pairs", "answered", width=2, rows=rows, rho=1),
            cumulative("totals", "answered", [1], rows=rows, size_share=0.2, rho=1),
            joint("both", "answered", width=2, event=[1], rows=rows, rho=1),
        ],
        run={"log": "sqlite:study.db", "public": "sqlite:public.db"},
    )


ABSENT = 2


@pytest.fixture(scope="module", params=["nlswork_union.csv", "oulad_submit_monthly.csv"])
def case(request, tmp_path_factory):
    """Withdrawn students and unknown years are reports that nobody sends."""
    folder = tmp_path_factory.mktemp("open")
    count, rows = 7, 1000
    case = PanelStudy(folder, request.param, open_study(count, rows))
    case.truth = case.truth[:800, -count:]
    gone = (case.truth == "") | (case.truth == "2")
    case.codes = np.where(gone, ABSENT, case.truth == "1").astype(int)
    case.rows, case.labels = rows, [str(t) for t in range(1, count + 1)]
    table = folder / "long.csv"
    with table.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["person", "period", "answered"])
        for place in np.argwhere(~gone):
            writer.writerow([f"p{place[0]}", case.labels[place[1]], case.codes[tuple(place)]])
    case.do("send", case.study, table)
    for label in (case.labels[3], case.labels[-1]):
        case.do("close", case.study, label, "--yes")
        case.do("run", case.study, "--until-idle")
    return case


@pytest.mark.parametrize("release", ["pairs", "both"])
@pytest.mark.parametrize("query", ["pattern 1 1", "pattern 0", "at-least 1 of last 2 answered=1"])
def test_shares_are_of_those_present(case, capsys, release, query):
    for label in (case.labels[4], case.labels[-1]):
        t = int(label)
        last, now = case.codes[:, t - 2], case.codes[:, t - 1]
        true = {
            "pattern 1 1": (last == 1) & (now == 1),
            "pattern 0": now == 0,
            "at-least 1 of last 2 answered=1": (last == 1) | (now == 1),
        }[query].sum()
        present = (now != ABSENT).sum()
        case.check(capsys, release, query, period=label, expected=true, people=present)


@pytest.mark.parametrize("release", ["totals", "both"])
def test_totals_are_of_those_who_have_entered(case, capsys, release):
    for label in (case.labels[2], case.labels[-1]):
        seen = case.codes[:, : int(label)]
        entered = (seen != ABSENT).any(axis=1).sum()
        for least in (1, 3):
            true = ((seen == 1).sum(axis=1) >= least).sum()
            case.check(
                capsys, release, f"total at-least {least}", period=label, expected=true,
                people=entered, share=release == "totals",
            )  # fmt: skip


def test_panels_wake_rows_up_and_never_have_more_than_the_cap(case):
    for release in ("pairs", "totals", "both"):
        out = case.folder / f"{release}.parquet"
        case.do("export", case.study, release, out)
        table = pyarrow.parquet.read_table(out)
        assert table.num_rows == case.rows
        columns = [np.array(table[x].to_pylist()) for x in case.labels]
        here = np.array([(column != "absent").sum() for column in columns])
        true = (case.codes != ABSENT).sum(axis=0)
        if release == "totals":
            assert (np.diff(here) >= 0).all()
            true = np.logical_or.accumulate(case.codes != ABSENT, axis=1).sum(axis=0)
        assert np.abs(here - true).max() < 0.05 * true.max() + 60


def test_the_plan_and_the_log_agree(case, capsys):
    report = case.ask(capsys, "verify", case.study)
    assert any("3 of 3 spent" in line for line in report["verified"])
    answer = case.ask(capsys, "estimate", case.study, "pairs", "pattern 1")
    assert answer["interval"][0] < answer["value"] < answer["interval"][1]
