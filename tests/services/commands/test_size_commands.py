"""Sizes of places by command: differences, evaluations on known sizes, rehearsals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from kit.commands import json_output, refusal
from kit.movers import DUE, LABELS, LARGEST, PLACES, moves_public, moves_toml, region, write_moves

from stream_dp.services.commands.cli import main

METHODS = ["before", "after", "plain averages", "paper's weights", "omniscient"]
COUNTED = {"places": {"unit": "block", "regions": ["county", "tract"], "counted": True}}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    return moves_public(tmp_path_factory.mktemp("moves"))


def test_differences_have_the_errors_of_both(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    def ask(*more: str, query: str = "at-least 2") -> dict[str, object]:
        answer: dict[str, object] = json_output(capsys, "estimate", log, "blocks", query, *more)
        return answer

    last, first = ask(), ask("--period", DUE[0])
    change = ask("--minus", DUE[0])
    assert change["value"] == last["value"] - first["value"]
    assert change["published"] == last["published"] - first["published"]
    both = np.hypot(last["standard_error"], first["standard_error"])
    assert change["standard_error"] == pytest.approx(both)
    north, south = ask("--region", "c0"), ask("--region", "c1")
    between = ask("--region", "c0", "--minus-region", "c1")
    assert between["value"] == north["value"] - south["value"]
    assert (between["minus"], between["minus_region"]) == (DUE[1], ["c1"])
    both = np.hypot(north["standard_error"], south["standard_error"])
    assert between["standard_error"] == pytest.approx(both)
    rest = ask("--region", "c0", "--minus-region", "", "--minus", DUE[0])
    assert rest["published"] == north["published"] - first["published"]
    none = ask("--minus", DUE[0], query="quantile 1/2")
    assert (none["value"], none["standard_error"]) == (none["published"], None)
    assert "quantile" in str(none["reason"])
    words = ["estimate", log, "blocks", "mean", "--region", "c0", "--minus-region", "c1", "--long"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert f"mean at {DUE[1]}, c0, less {DUE[1]}, c1" in said
    assert "both, whose noise is independent" in said


REFUSED = {
    ("--minus", DUE[1]): "both answers are the same",
    ("--minus-region", ""): "both answers are the same",
    ("--minus", LABELS[0]): LABELS[0],
    ("--minus-region", "c9"): "there is no such region",
    ("--minus-region", "c0", "--each-period"): "one answer alone",
}


@pytest.mark.parametrize("options", REFUSED)
def test_no_difference(
    log: str, options: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    error = refusal(capsys, 2, "estimate", log, "blocks", "mean", *options)
    if "--each-period" not in options:
        assert REFUSED[options] in error
    assert len(error.splitlines()) == 1


def test_errors_of_a_table_of_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, truth = tmp_path / "counts.toml", tmp_path / "counts.csv"
    periods = {"first": "2010", "every": "year", "count": 1, "close": "marker"}
    release = {"attribute": None, "at": None, "every": 1, "rho": 3, "largest": 9}
    file.write_text(moves_toml(attributes={}, periods=periods, release=release, **COUNTED))
    rows = [f"c{i % 2},t{i},{size},{n}" for i in range(6) for size, n in ((0, 60), (1, 20), (8, 1))]
    truth.write_text("\n".join(["county,tract,size,count", *rows]))
    report = json_output(capsys, "evaluate", file, truth, "--repetitions", 3, "--scales", "1/3,9")
    assert report["confidential"]
    assert (report["places"], report["people"], report["period"]) == (486, 168, "2010")
    assert report["rhos"] == {"rho 1": "1", "rho 27": "27"}
    errors = {(row["budget"], row["level"]): row for row in report["errors"]}
    assert list(errors) == [(b, n) for b in report["rhos"] for n in ("all", "county", "tract")]
    for (_, level), row in errors.items():
        assert list(row["distances"]) == METHODS
        assert row["regions"] == {"all": 1, "county": 2, "tract": 6}[level]
        assert row["measured"] == ("sorted" if level == "tract" else "cumulative-squares")
    # Three sizes occur everywhere; at rho 9 a level the deviation is 1/sqrt(18), of a discrete law.
    assert errors["rho 1", "all"]["distances"]["omniscient"] == pytest.approx(3 * 1.5**0.5)
    for level in ("all", "county", "tract"):
        few, many = (errors[budget, level]["distances"] for budget in report["rhos"])
        assert few["before"] > 0
        assert many["after"] == 0
    assert main(["evaluate", str(file), str(truth), "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert said.startswith("CONFIDENTIAL")
    assert "paper's weights" in said
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"sizes.txt", "sizes.json"}


def test_errors_of_reports_of_people_who_move(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "moves.toml"
    file.write_text(moves_toml())
    truth = write_moves(tmp_path)
    reports, places = tmp_path / "reports.csv", tmp_path / "places.csv"
    report = json_output(capsys, "evaluate", file, reports, "--places", places, "--at", LABELS[1])
    assert (report["places"], report["period"]) == (PLACES, LABELS[1])
    assert report["people"] == np.minimum(truth[1], LARGEST).sum()
    last = json_output(capsys, "evaluate", file, reports, "--places", places, "--repetitions", 1)
    assert last["people"] == np.minimum(truth[2], LARGEST).sum()
    assert "--places FILE" in refusal(capsys, 2, "evaluate", file, reports)
    error = refusal(capsys, 2, "evaluate", file, reports, "--places", reports)
    assert "needs the columns county, tract" in error


def test_a_rehearsal_with_places(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "moves.toml", tmp_path / "out"
    file.write_text(moves_toml())
    write_moves(tmp_path)
    reports, places = tmp_path / "reports.csv", tmp_path / "places.csv"
    with reports.open("a") as more:
        more.write(f"\nx,{LABELS[0]},b999")
    said = json_output(capsys, "rehearse", file, reports, "--places", places, "--out", out)
    due = [{"release": "blocks", "period": label} for label in DUE]
    assert [r for r in said["releases"] if r["release"] == "blocks"] == due
    assert said["left_out"] is None
    (faults,) = [each["faults"] for each in said["files"].values()]
    assert [(fault["column"], fault["cells"]) for fault in faults] == [("home", 1)]
    page = (out / "rehearsal.html").read_text("utf-8")
    for where in ("all regions", "c0", "c1", *("/".join(region(i)) for i in range(6))):
        assert f"Sizes in {where}, " in page
    assert "CONFIDENTIAL" in page
    assert not list(tmp_path.glob("*.db"))
    assert "--places" in refusal(capsys, 2, "rehearse", file, reports)
