"""People who come and go, in real panels: union members with years missing, students who withdraw.

Under add_remove the number of people is private: the panel has a declared cap of rows, those who
are absent are never counted, and shares are of those present, or of those who have entered.
Noise is the operating system's; estimates are held to 4.5 standard errors.
"""

import csv

import numpy as np
import pyarrow.parquet
import pytest
from test_real_data import PANELS, Case, Z

pytestmark = pytest.mark.skipif(
    not PANELS.is_dir(), reason="needs the real panels in ../shared/data/panels"
)

STUDY = """
[study]
name = "open"
unit = "person"
neighbours = "add_remove"
rho = 3
delta = 1e-6
[study.periods]
first = "1"
every = "step"
count = {count}
[attributes.told]
values = [0, 1]
missing = "absent"
[[releases]]
name = "pairs"
kind = "window"
attribute = "told"
width = 2
rows = {rows}
rho = 1
[[releases]]
name = "totals"
kind = "cumulative"
attribute = "told"
event = [1]
rows = {rows}
size_share = 0.2
rho = 1
[[releases]]
name = "both"
kind = "joint"
attribute = "told"
width = 2
event = [1]
rows = {rows}
rho = 1
[run]
log = "sqlite:study.db"
public = "sqlite:public.db"
"""
ABSENT = 2


@pytest.fixture(scope="module", params=["nlswork_union.csv", "oulad_submit_monthly.csv"])
def case(request, tmp_path_factory):
    """Withdrawn students and unknown years are reports that nobody sends."""
    folder = tmp_path_factory.mktemp("open")
    with (PANELS / request.param).open(newline="") as file:
        count = len(next(csv.reader(file))) - 1
    rows = 6000 if "union" in request.param else 30_000
    made = Case(folder, request.param, STUDY.format(count=count, rows=rows))
    gone = (made.truth == "") | (made.truth == "2")
    made.codes = np.where(gone, ABSENT, made.truth == "1").astype(int)
    made.rows, made.labels = rows, [str(t) for t in range(1, count + 1)]
    table = folder / "long.csv"
    with table.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["person", "period", "told"])
        for place in np.argwhere(~gone):
            writer.writerow([f"p{place[0]}", made.labels[place[1]], made.codes[tuple(place)]])
    made.do("send", made.study, table)
    for label in (made.labels[3], made.labels[-1]):
        made.do("close", made.study, label)
        made.do("run", made.study, "--until-idle")
    return made


@pytest.mark.parametrize("release", ["pairs", "both"])
@pytest.mark.parametrize("query", ["pattern 1 1", "pattern 0", "at-least 1 of last 2 told=1"])
def test_shares_are_of_those_present(case, capsys, release, query):
    for label in (case.labels[4], case.labels[7], case.labels[-1]):
        t = int(label)
        last, now = case.codes[:, t - 2], case.codes[:, t - 1]
        true = {
            "pattern 1 1": (last == 1) & (now == 1),
            "pattern 0": now == 0,
            "at-least 1 of last 2 told=1": (last == 1) | (now == 1),
        }[query].sum()
        present = (now != ABSENT).sum()
        case.check(capsys, release, query, label, true, present)


@pytest.mark.parametrize("release", ["totals", "both"])
def test_totals_are_of_those_who_have_entered(case, capsys, release):
    for label in (case.labels[2], case.labels[-1]):
        seen = case.codes[:, : int(label)]
        entered = (seen != ABSENT).any(axis=1).sum()
        for least in (1, 3):
            true = ((seen == 1).sum(axis=1) >= least).sum()
            case.check(
                capsys, release, f"total at-least {least}", label, true, entered,
                share=release == "totals",
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
    held = case.ask(capsys, "verify", case.study)
    assert any("3 of 3 spent" in line for line in held["verified"])
    found = case.ask(capsys, "estimate", case.study, "pairs", "pattern 1")
    assert found["interval"][0] < found["value"] < found["interval"][1]
    assert Z > 4
