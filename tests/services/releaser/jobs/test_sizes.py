"""Sizes of places, from people who move over a worker that is killed to what is asked of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.compute
import pyarrow.parquet
import pytest
from kit.commands import json_output, refusal, written
from kit.movers import DUE, LABELS, LARGEST, PLACES, moves_toml, region, write_moves
from kit.workers import killed_and_again

LEVELS = 3


@pytest.mark.parametrize("log", ["sqlite", pytest.param("kafka", marks=pytest.mark.slow)])
def test_people_who_move_and_the_sizes_of_their_places(
    log: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    file, out = written(moves_toml(), tmp_path, log, request, capsys), tmp_path / "out"
    truth = write_moves(tmp_path)

    plan = json_output(capsys, "check", file)
    (planned,) = plan["releases"]
    assert planned["charges"] == {LABELS[0]: "0", LABELS[1]: "3/2", LABELS[2]: "3/2"}
    (sizes_plan,) = plan["data_sets"]
    assert [round(level["most"], 3) for level in sizes_plan["phases"]] == [1, 1, 1]

    assert "stream-dp places" in refusal(capsys, 2, "send", file, tmp_path / "reports.csv")
    sent = json_output(capsys, "places", file, tmp_path / "places.csv")
    assert (sent["places"], sent["regions"], sent["sent"]) == (PLACES, 6, True)
    assert not json_output(capsys, "places", file, tmp_path / "places.csv")["sent"]
    json_output(capsys, "send", file, tmp_path / "reports.csv")
    json_output(capsys, "close", file, LABELS[1], "--yes")
    assert json_output(capsys, "run", file, "--until-idle") == {"horizon_reached": False}
    other = tmp_path / "other.csv"
    other.write_text((tmp_path / "places.csv").read_text() + "\nb999,c0,t0")
    assert "begun with another table" in refusal(capsys, 2, "places", file, other)
    killed_and_again(file, LEVELS, before=2)
    json_output(capsys, "close", file, LABELS[2], "--yes")
    json_output(capsys, "run", file, "--until-idle")
    json_output(capsys, "worker", file, "--until-idle")
    assert json_output(capsys, "run", file, "--until-idle") == {"horizon_reached": True}
    json_output(capsys, "verify", file)
    rows = json_output(capsys, "releases", file)["releases"]
    assert [row["rho_spent"] for row in rows] == ["3/2", "3"]

    for label in DUE:
        exported = json_output(capsys, "export", file, "blocks", out, "--period", label)
        assert exported["out"] == [str(out / "sizes.parquet"), str(out / "measurements.parquet")]
        table = pyarrow.parquet.read_table(out / "sizes.parquet")
        assert table.column_names == ["level", "county", "tract", "size", "groups"]
        sizes = np.minimum(truth[LABELS.index(label)], LARGEST)
        everywhere = table.filter(pyarrow.compute.equal(table["level"], "all"))
        got = np.zeros(LARGEST + 1, np.int64)
        got[everywhere["size"].to_numpy()] = everywhere["groups"].to_numpy()
        assert got.sum() == PLACES
        # The noise of an entry has the deviation 1.
        assert np.abs(np.cumsum(got - np.bincount(sizes, minlength=LARGEST + 1))).max() <= 8
        tract = json_output(
            capsys, "estimate", file, "blocks", "mean", "--region", "c1/t3", "--period", label
        )
        own = sizes[[region(i) == ("c1", "t3") for i in range(PLACES)]]
        assert abs(tract["value"] - own.mean()) < 8 * tract["standard_error"]
    change = json_output(capsys, "estimate", file, "blocks", "mean", "--minus", LABELS[1])
    means = [np.minimum(truth[LABELS.index(label)], LARGEST).mean() for label in DUE]
    assert (change["period"], change["minus"]) == (LABELS[2], LABELS[1])
    assert abs(change["value"] - (means[1] - means[0])) < 8 * change["standard_error"]
    assert (tmp_path / "moves-snapshots").is_dir() or log == "kafka"
    page = tmp_path / "page.html"
    json_output(capsys, "page", file, page)
    assert "Sizes in c1/t3" in page.read_text()
