"""Who is counted, by declaration and family: every cell of the table is that of a small run."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from kit.kinds_of_releases import public_log_of
from kit.studies import attribute, small_study

from stream_dp.client import PublicLog
from stream_dp.errors import UserError

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "declare-the-population.md"
LABELS = ("2021-01", "2021-02", "2021-03")
# By group: its number of people, a different power of two each, and the periods of its reports.
GROUPS = {
    "stay": (10, (1, 1, 1)),
    "left": (20, (1, 1, 0)),
    "late": (40, (0, 0, 1)),
    "silent": (80, (0, 0, 0)),
}
SIZE = sum(number for number, _ in GROUPS.values())
RHO, NOBODY = 60_000, "nobody"
# By declaration, as the page has it: the missing rule, and fields of the study.
CARRY = {"carry": True, "first": "no"}
PUBLIC = {"neighbours": "replace_one", "size": SIZE}
PRIVATE = {"neighbours": "add_remove", "size": None}
DECLARED = {
    '`size`, `missing = "absent"`': ("absent", PUBLIC),
    '`size`, `missing = "no"`': ("no", PUBLIC),
    "`size`, carry forward": (CARRY, PUBLIC),
    '`rows`, `missing = "absent"`': ("absent", PRIVATE),
    '`add_remove`, `missing = "no"`': ("no", PRIVATE),
    "`add_remove`, carry forward": (CARRY, PRIVATE),
    '`closed`, `missing = "absent"`': ("absent", {**PRIVATE, "population": {"closed": True}}),
    '`closed`, `missing = "no"`': ("no", {**PRIVATE, "population": {"closed": True}}),
}
FAMILIES = {
    "window": "poor=yes",
    "cumulative": "total at-least 1",
    "joint": "total at-least 1",
    "match": "poor=yes",
}


def log_of(declaration: str, family: str, **release: object) -> PublicLog:
    missing, fields = DECLARED[declaration]
    declared: dict[str, object] = {"name": "asked", "kind": family, "rho": RHO, **release}
    closed, private = "population" in fields, fields["size"] is None
    if family == "match":  # a closed cohort closes with the first release
        declared |= {"attributes": ["poor", "sex"], "every": 1 if closed else 3}
        declared |= {"rho": RHO // 3} if closed else {}
    else:
        declared |= {"attribute": "poor"}
        declared |= {} if family == "cumulative" else {"width": 2}
        declared |= {} if family == "window" else {"event": ["yes"]}
        declared |= {"size_share": "1/2"} if family == "cumulative" and private else {}
        declared |= {"rows": SIZE} if private and missing == "absent" and not closed else {}
    study = small_study(
        rho=RHO,
        periods={"first": LABELS[0], "every": "month", "count": len(LABELS)},
        attributes={
            "poor": attribute(["no", "yes"], missing=missing),
            "sex": attribute(["f", "m"], missing="f"),
        },
        releases=[declared],
        **fields,
    )
    rows = [
        {"person": f"{name}{i}", "period": label, "poor": "yes", "sex": "f"}
        for name, (number, present) in GROUPS.items()
        for i in range(number)
        for label, here in zip(LABELS, present, strict=True)
        if here
    ]
    return PublicLog(public_log_of(study, pa.Table.from_pylist(rows)))


def groups(number: float) -> str:
    """The groups whose people are so many together, in words."""
    assert number == pytest.approx(round(number / 10) * 10, abs=2), number
    bits = round(number / 10)
    return ", ".join(n for n, (size, _) in GROUPS.items() if bits & (size // 10)) or NOBODY


def cell(declaration: str, family: str) -> str:
    """The people in the numerator and in the denominator of a share of the last period."""
    log = log_of(declaration, family)
    counted = log.answer("asked", FAMILIES[family], count=True).value
    try:
        share = log.answer("asked", FAMILIES[family]).value
    except UserError:
        return f"{groups(counted)} / no share"
    return f"{groups(counted)} / {groups(counted / share)}"


def stated() -> dict[tuple[str, str], str]:
    """The cells of the page's table."""
    lines = PAGE.read_text().partition("## Who is in a share")[2].splitlines()
    rows = [[text.strip() for text in line.strip("|").split("|")] for line in lines if "/" in line]
    return {
        (declaration, family): text
        for declaration, *texts in rows
        if declaration in DECLARED
        for family, text in zip(FAMILIES, texts, strict=True)
    }


def test_the_table_has_every_declaration() -> None:
    assert {*stated()} == {(d, f) for d in DECLARED for f in FAMILIES}


@pytest.mark.parametrize(
    "family", [*list(FAMILIES)[:3], pytest.param("match", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("declaration", DECLARED)
def test_a_cell_is_that_of_a_small_run(declaration: str, family: str) -> None:
    assert cell(declaration, family) == stated()[declaration, family]


def test_padding_is_in_no_answer() -> None:
    log = log_of(next(iter(DECLARED)), "window", padded=True, strategy="histogram")
    answer = log.answer("asked", "poor=yes", count=True)
    assert groups(answer.value) == "stay, late"
