"""`plan`: expected errors, the budget that an error needs, and one line for a mistake."""

from fractions import Fraction
from operator import itemgetter
from xml.etree import ElementTree

import pytest
from trial import STUDY, write


def test_plan_states_errors_of_examples_and_writes_nothing(study, stream_dp, as_json):
    output, text = as_json("plan", study), stream_dp("plan", study)
    assert text.count("\n") == len({(row["release"], row["query"]) for row in output["errors"]}) + 2
    largest = max(
        (r for r in output["errors"] if r["query"] == "pattern 1 ?"), key=itemgetter("count")
    )
    assert (
        f"at most +-{largest['share_half_width']:.2%}, +-{largest['count_half_width']:.0f} " in text
    )
    assert "errors to expect" in stream_dp("plan", study, "--long")
    assert {row["release"] for row in output["errors"]} == {"pairs", "months"}
    for row in output["errors"]:
        assert row["count_half_width"] == pytest.approx(1.959964 * row["count"])
        assert row["share"] == pytest.approx(row["count"] / 60)
    assert {p.name for p in study.parent.iterdir()} == {"study.toml", "reports.csv"}


def test_the_needed_budget_can_be_declared_and_gives_the_error(tmp_path, study, stream_dp, as_json):
    asked = ("--release", "pairs", "--query", "pattern 1 ?", "--confidence", "0.9")
    output = as_json("plan", study, *asked, "--error", "0.05", "--alternatives")
    needed = output["needed"]
    text = STUDY.replace("rho = 1\n", f'rho = "{needed["rho"]}"\n')
    for name in ("pairs", "months"):
        head, _, tail = text.partition(f'name = "{name}"')
        line = next(x for x in tail.splitlines() if x.startswith("rho = "))
        rho = needed["releases"][name]
        text = f'{head}name = "{name}"{tail.replace(line, f"rho = {chr(34)}{rho}{chr(34)}", 1)}'
    (tmp_path / "new").mkdir()
    rows = as_json("plan", write(tmp_path / "new", text), *asked)["errors"]
    assert max(r["share_half_width"] for r in rows) == needed["largest_half_width"] <= 0.05
    assert {row["query"] for row in output["alternatives"]} == {"pattern 1 ?"}
    assert all(Fraction(row["rho_needed"]) > 0 for row in output["alternatives"])
    text = stream_dp("plan", study, *asked, "--error", "0.05", "--alternatives")
    assert "planned again" in text
    assert "rho for the error" in text


def test_other_horizons_and_waves_have_a_row_and_a_picture(tmp_path, study, stream_dp, as_json):
    asked = ("--query", "pattern 1 ?", "--alternatives")
    output = as_json("plan", study, *asked, "--picture", tmp_path / "plan.svg")
    rows = {(row["waves"], row["periods"]): row for row in output["alternatives"]}
    assert {(1, 3), (1, 6)} <= rows.keys()
    assert rows[1, 6]["half_width"] > rows[1, 3]["half_width"]
    assert "waves  half-width" in stream_dp("plan", study, *asked)
    svg = ElementTree.parse(tmp_path / "plan.svg")
    words = " ".join(text.strip() for text in svg.getroot().itertext())
    assert "pairs: pattern 1 ?: declared otherwise" in words
    for row in output["alternatives"]:
        assert f"{row['half_width']:.2%}" in words
    assert "var(" not in (tmp_path / "plan.svg").read_text()
    longer = as_json("plan", study, "--query", "pattern 1 ?", "--periods", "6")
    assert [row["period"] for row in longer["errors"]][-1] == "2021-06"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--error", "0"), "--error: write a number above 0"),
        (("--error", "nan"), "--error: write a number above 0"),
        (("--error", "1e-9"), "would need rho"),
        (("--confidence", "95"), "--confidence: write a level between 0 and 1"),
        (("--people", "0"), "--people: write a number of at least 1"),
        (("--query", "pattern 7"), "'7' is no value"),
        (("--release", "none"), "no such release"),
        (("--periods", "0"), "periods: write a number from 1 to"),
        (("--periods", "1"), "periods 1: releases[1].width: 2 periods is over the horizon of 1"),
        (("--picture", "plan.png"), "write it as .svg"),
        (("--picture", "no/plan.svg"), "plan.svg"),
        (("--release", "pairs", "--query", "total at-least 1"), "ask a window release"),
    ],
)
def test_a_mistake_is_a_clear_line(study, stream_dp, words, message):
    assert message in stream_dp("plan", study, *words, code=2)
