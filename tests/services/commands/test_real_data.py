"""Real panels through the commands: send, close, run, export, estimate, verify.

Noise is the operating system's, so estimates are tested against 4.5 standard errors: about one
check in 150,000 fails by chance.
"""

from fractions import Fraction
from itertools import islice

import numpy as np
import pytest
from kit.real_panels import PANELS, PanelStudy, Z
from kit.signals import restored_handlers
from kit.studies import attribute, cumulative, study_toml, window

from stream_dp.services.commands import cli
from stream_dp.study import Run

pytestmark = pytest.mark.skipif(
    not PANELS.is_dir(), reason="needs the real panels in ../shared/data/panels"
)


@pytest.fixture(scope="module", autouse=True)
def _undisturbed():
    with restored_handlers(), pytest.MonkeyPatch.context() as patch:
        for field in Run.model_fields.keys() - {"weights"}:
            patch.delenv(f"STREAM_DP_{field.upper()}", raising=False)
        yield


# The Open University: nine months of the first students in the file, with real attrition.

ENROLLED = 6000

STUDENTS = study_toml(
    name="students",
    unit="student",
    rho="1/10",
    delta=1e-8,
    periods={"first": "2013-10", "every": "month", "count": 9},
    size=ENROLLED,
    attributes={"activity": attribute(["active", "submitted", "withdrawn"], missing="active")},
    releases=[
        window("quarters", "activity", width=3, rho="1/20"),
        cumulative("months-out", "activity", ["withdrawn"], rho="1/40"),
        cumulative("submissions", "activity", ["submitted"], rho="1/40"),
    ],
)

SCHOOL = ("2013-10", "2013-11", "2013-12", *(f"2014-{i:02d}" for i in range(1, 7)))

STATES = ("active", "submitted", "withdrawn")


@pytest.fixture(scope="module")
def students(tmp_path_factory):
    folder = tmp_path_factory.mktemp("students")
    case = PanelStudy(folder, "oulad_submit_monthly.csv", STUDENTS)
    case.codes = case.truth[:ENROLLED].astype(np.uint8)
    # The file has codes; the study has words.
    named = folder / "named.csv"
    words = np.array(STATES)[case.codes]
    with case.table.open() as file, named.open("w") as out:
        out.write(next(file))
        for line, row in zip(islice(file, ENROLLED), words, strict=True):
            out.write(line.split(",")[0] + "," + ",".join(row) + "\n")
    case.table = named
    case.publish(SCHOOL, "--person", "id", "--attribute", "activity")
    return case


def test_students_are_all_accounted_for(students, capsys):
    students.accounted(capsys, received=ENROLLED * 9, accepted=ENROLLED * 9)
    assert students.ask(capsys, "rejected", students.study)["rejected"] == {}
    assert Fraction(students.ask(capsys, "status", students.study)["rho_spent"]) == Fraction(1, 10)


@pytest.mark.parametrize("period", [3, 5, 9])
def test_what_students_did_in_three_months(students, capsys, period):
    window = students.codes[:, period - 3 : period]
    runs = (window[:, :2] == 1).all(axis=1) | (window[:, 1:] == 1).all(axis=1)
    for query, expected in (
        ("pattern submitted submitted submitted", (window == 1).all(axis=1)),
        ("pattern withdrawn ? ?", window[:, 0] == 2),
        ("pattern submitted|active withdrawn", (window[:, 1] != 2) & (window[:, 2] == 2)),
        ("pattern active", window[:, 2] == 0),
        ("at-least 2 of last 3 activity=submitted", (window == 1).sum(axis=1) >= 2),
        ("consecutive 2 of last 3 activity=submitted", runs),
    ):
        students.check(
            capsys,
            "quarters",
            query,
            period=SCHOOL[period - 1],
            expected=expected.sum(),
            people=ENROLLED,
        )


@pytest.mark.parametrize(("release", "code"), [("months-out", 2), ("submissions", 1)])
@pytest.mark.parametrize("period", [1, 4, 9])
def test_in_how_many_months_students_did_it(students, capsys, release, code, period):
    totals = (students.codes[:, :period] == code).sum(axis=1)
    for b in sorted({1, (period + 1) // 2, period}):
        expected = (totals >= b).sum()
        students.check(
            capsys,
            release,
            f"total at-least {b}",
            period=SCHOOL[period - 1],
            expected=expected,
            people=ENROLLED,
        )


def test_panels_of_students(students, capsys):
    table = students.panels_only_grow(capsys, "quarters", 3, SCHOOL)
    assert table.num_rows == ENROLLED
    assert set(table["2014-06"].to_pylist()) <= set(STATES)
    table = students.panels_only_grow(capsys, "months-out", 1, SCHOOL)
    assert table.num_rows == ENROLLED
    # The synthetic students leave as the real ones did: their totals follow the noisy ones.
    totals = sum(np.array(table[x].to_pylist()) for x in SCHOOL)
    true = (students.codes == 2).sum(axis=1)
    for b in (1, 4, 8):
        answer = students.check(
            capsys,
            "months-out",
            f"total at-least {b}",
            period=SCHOOL[-1],
            expected=(true >= b).sum(),
            people=ENROLLED,
        )
        assert answer["panel"] == pytest.approx((totals >= b).sum())
        assert abs(answer["panel"] - (true >= b).sum()) < 10 * answer["standard_error"]


def test_the_students_releases_verify(students, capsys):
    report = students.ask(capsys, "verify", students.study)
    assert len(report["verified"]) == 8
    assert "chain: 26 messages" in report["verified"][0]
    listed = students.ask(capsys, "releases", students.study)
    assert len(listed["releases"]) == 25
    assert listed["head"] == report["head"]
    public = f"sqlite:{students.folder / 'students-public.db'}"
    assert students.ask(capsys, "verify", public)["head"] == report["head"]


# Union membership: 4,711 women, fifteen interviews, most answers missing.

UNION = study_toml(
    name="union",
    unit="woman",
    neighbours="replace_in_place",
    delta=1e-7,
    periods={"first": 1, "every": "step", "count": 15},
    size=4711,
    attributes={"union": attribute([0, 1], missing="absent")},
    releases=[
        window("pairs", "union", width=2, rho=0.5),
        cumulative("ever", "union", [1], rho=0.25),
        cumulative("answers", "union", [0, 1], rho=0.25),
    ],
    run={"partitions": 3},
)

STEPS = tuple(str(i) for i in range(1, 16))


@pytest.fixture(scope="module")
def women(tmp_path_factory):
    case = PanelStudy(tmp_path_factory.mktemp("women"), "nlswork_union.csv", UNION)
    case.publish(STEPS, "--person", "idcode", "--attribute", "union")
    return case


def test_women_are_all_accounted_for(women, capsys):
    answers = int((women.truth != "").sum())
    assert women.truth.shape == (4711, 15)
    assert answers < women.truth.size / 2
    women.accounted(capsys, received=answers, accepted=answers)


@pytest.mark.parametrize("period", [2, 8, 15])
def test_two_interviews_of_women(women, capsys, period):
    before, now = women.truth[:, period - 2], women.truth[:, period - 1]
    for query, expected in (
        ("pattern 1 1", (before == "1") & (now == "1")),
        ("pattern 0|1 absent", (before != "") & (now == "")),
        ("pattern absent absent", (before == "") & (now == "")),
        ("at-least 1 of last 2 union=1", (before == "1") | (now == "1")),
        ("pattern absent", now == ""),
    ):
        women.check(
            capsys, "pairs", query, period=str(period), expected=expected.sum(), people=4711
        )


@pytest.mark.parametrize("period", [1, 5, 15])
def test_totals_of_women(women, capsys, period):
    past = women.truth[:, :period]
    for release, hits in (("ever", past == "1"), ("answers", past != "")):
        for b in sorted({1, (period + 2) // 3}):
            expected = (hits.sum(axis=1) >= b).sum()
            women.check(
                capsys,
                release,
                f"total at-least {b}",
                period=str(period),
                expected=expected,
                people=4711,
            )


def test_panels_of_women(women, capsys):
    table = women.panels_only_grow(capsys, "pairs", 2, STEPS)
    assert set(table["15"].to_pylist()) <= {"0", "1", "absent"}
    assert women.panels_only_grow(capsys, "ever", 1, STEPS).num_rows == 4711
    assert "chain: 45 messages" in women.ask(capsys, "verify", women.study)["verified"][0]


# Teenage poverty: 1,151 households in five waves; their number is private.

TEENS = study_toml(
    name="teens",
    unit="household",
    neighbours="add_remove",
    rho=2,
    periods={"first": 1979, "every": "year", "count": 5},
    size=None,
    attributes={"poverty": attribute([0, 1], missing={"carry": True, "first": 0})},
    releases=[
        window("spells", "poverty", width=3, rho=1),
        cumulative("waves", "poverty", [1], size_share=0.1, rho=0.5),
        cumulative("declared", "poverty", [1], rows=1500, rho=0.5),
    ],
)

YEARS = ("1979", "1980", "1981", "1982", "1983")


@pytest.fixture(scope="module")
def teens(tmp_path_factory):
    case = PanelStudy(tmp_path_factory.mktemp("teens"), "nlsy_teen_poverty.csv", TEENS)
    case.codes = case.truth.astype(np.uint8)
    # Period by period, each wave sent by itself, as it would come.
    names = dict(zip(case.columns, YEARS, strict=True))
    for column, year in names.items():
        case.do(
            "send", case.study, case.table,
            "--person", "id", "--attribute", "poverty", "--columns", f"{column}={year}",
        )  # fmt: skip
        case.do("close", case.study, year, "--yes")
        case.do("run", case.study, "--until-idle")
    return case


def test_teens_are_all_accounted_for(teens, capsys):
    assert teens.codes.shape == (1151, 5)
    teens.accounted(capsys, received=1151 * 5, accepted=1151 * 5)


@pytest.mark.parametrize("wave", [3, 4, 5])
def test_spells_of_poverty(teens, capsys, wave):
    window = teens.codes[:, wave - 3 : wave]
    out = (window[:, 1] == 0) & (window[:, [0, 2]] == 0).any(axis=1)
    for query, expected in (
        ("pattern 1 1 1", window.all(axis=1)),
        ("pattern 0 1", (window[:, 1] == 0) & (window[:, 2] == 1)),
        ("at-least 1 of last 3 poverty=1", window.any(axis=1)),
        ("consecutive 2 of last 3 poverty=0", out),
    ):
        teens.check(
            capsys, "spells", query, period=YEARS[wave - 1], expected=expected.sum(), people=1151
        )


@pytest.mark.parametrize("wave", [1, 5])
def test_waves_of_poverty(teens, capsys, wave):
    totals = teens.codes[:, :wave].sum(axis=1)
    for b in sorted({1, (wave + 1) // 2}):
        query, expected = f"total at-least {b}", (totals >= b).sum()
        teens.check(capsys, "waves", query, period=YEARS[wave - 1], expected=expected, people=1151)
        teens.check(
            capsys,
            "declared",
            query,
            period=YEARS[wave - 1],
            expected=expected,
            people=1151,
            share=False,
        )


def test_panels_of_teens(teens, capsys):
    teens.panels_only_grow(capsys, "spells", 3, YEARS)
    assert teens.panels_only_grow(capsys, "declared", 1, YEARS).num_rows == 1500
    rows = teens.panels_only_grow(capsys, "waves", 1, YEARS).num_rows
    # The number of rows is itself noisy: variance 1 / (2 rho size_share).
    assert abs(rows - 1151) <= Z * (1 / (2 * 0.05)) ** 0.5 + 1
    assert "chain: 14 messages" in teens.ask(capsys, "verify", teens.study)["verified"][0]


def test_a_file_sent_again_after_the_close_is_late_and_changes_nothing(teens, capsys):
    before = teens.ask(capsys, "verify", teens.study)["head"]
    words = ["--person", "id", "--attribute", "poverty", "--columns", "pov5=1983"]
    assert cli.main(["send", str(teens.study), str(teens.table), *words]) == 2
    assert "nothing of it is sent" in capsys.readouterr().err
    teens.do("run", teens.study, "--until-idle")
    assert teens.ask(capsys, "verify", teens.study)["head"] == before
    teens.accounted(capsys, received=1151 * 5, accepted=1151 * 5)
