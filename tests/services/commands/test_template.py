"""The commented study file of `stream-dp new`: what it offers in comments is true."""

from __future__ import annotations

import re
import tomllib
from fractions import Fraction
from importlib.resources import files
from pathlib import Path

import pytest

from stream_dp.planning.plan import Plan, plan_study
from stream_dp.studyfile import load_study

TEMPLATE = files("stream_dp.services.commands").joinpath("study.toml").read_text("utf-8")


def block(start: str) -> str:
    """The commented lines from a heading to the next empty line, as a file has them."""
    (section,) = re.findall(rf"^# {start}.*?\n\n", TEMPLATE, re.MULTILINE | re.DOTALL)
    lines = [line.removeprefix("# ") for line in section.splitlines()]
    return "\n".join(line for line in lines if is_toml(line))


def is_toml(line: str) -> bool:
    try:
        return bool(tomllib.loads(line))
    except tomllib.TOMLDecodeError:
        return False


@pytest.fixture
def read(tmp_path: Path):
    def reader(text: str, *changes: tuple[str, str]) -> Plan:
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "study.toml"
        path.write_text(text)
        return plan_study(load_study(path)[0])

    return reader


LESS = ("share = 0.5 ", "share = 0.2 "), ("share = 0.5\n", "share = 0.2\n")
STRATA = TEMPLATE + block("Products")


def test_products_and_strata(read) -> None:
    plan = read(STRATA, *LESS)
    names = [planned.release.name for planned in plan.releases]
    assert names[2:] == ["poverty-and-job", "regional-north", "regional-south"]
    assert plan.total == Fraction(8, 1000)


def test_the_other_ways_to_write_strata(read) -> None:
    for key in ("where", "waves"):
        (words,) = re.findall(rf"{key} = (\{{.*\}})", TEMPLATE)
        plan = read(STRATA, *LESS, ('\nstrata = "region"', f"\n{key} = {words}\n"))
        assert plan.total == Fraction(8, 1000)
    joint, *waves = (plan.study.span(p.release) for p in plan.releases[2:])
    assert (joint, waves) == ((4, 12), [(1, 9), (4, 12)])
    assert read(STRATA, *LESS, ('\nfirst = "2026-04"', '\nlast = "2026-09"\nfirst = "2026-04"'))


def test_people_who_come_and_go(read) -> None:
    changes = [
        *LESS,
        ('neighbours = "replace_one"', 'neighbours = "add_remove"'),
        ("size = 1000 ", "# "),
        ("missing = 0 ", 'missing = "absent" '),
        ("# rows = 2000 ", "rows = 2000 "),
        ("# size_share", "size_share"),
        ("width = 3\n", "width = 3\nrows = 2000\n"),
        ('\nfirst = "2026-04"', '\nrows = 900\nfirst = "2026-04"'),
        ('missing = "no"', 'missing = "absent"'),
    ]
    plan = read(STRATA, *changes)
    assert "open population" in plan.text()
    assert "late entry" not in plan.text()


def test_a_closed_cohort(read) -> None:
    changes = [
        ('neighbours = "replace_one"', 'neighbours = "add_remove"'),
        ("size = 1000 ", "# "),
        ("# closed = true ", "closed = true "),
        ("# size_share", "size_share"),
    ]
    plan = read(TEMPLATE, *changes)
    assert "never counted" in plan.text()
    assert "by 2026-01" in plan.text()
    assert "late entry" not in plan.text()


def test_groups(read) -> None:
    groups = [
        *LESS,
        ('unit = "household"             #', 'unit = "person"  #'),
        ('neighbours = "replace_one"', 'neighbours = "replace_in_place"'),
    ]
    plan = read(TEMPLATE + block("Groups"), *groups)
    assert plan.releases[-1].release.name == "households"


def test_a_schedule(read) -> None:
    lines = [line.removeprefix("# ") for line in TEMPLATE.splitlines() if line.startswith("# ")]
    some = lines[lines.index(next(line for line in lines if line.startswith("close"))) :]
    some = [line for line in some if re.match(r"zone|at = 06|grace|delay", line)]
    schedule = "\n".join(['close = "schedule"', *some, ""])
    (marker,) = re.findall(r'^close = "marker".*\n', TEMPLATE, re.MULTILINE)
    assert read(TEMPLATE, (marker, schedule)).study.periods.close_time(1)
