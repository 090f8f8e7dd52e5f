"""Sizes of places, from people who move over a worker that is killed to what is asked of them."""

from __future__ import annotations

import uuid
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from kit.commands import json_output, refusal
from kit.studies import MARKER, study_toml
from kit.workers import killed_and_again

LABELS = ("2021-01", "2021-02", "2021-03")
PEOPLE, PLACES, LARGEST = 700, 400, 8
DUE = (LABELS[1], LABELS[2])
LEVELS = 3
PLACE = {"place": True, "missing": {"carry": True, "first": "absent"}}
NOWHERE = "absent"


def study(relation: str = "add_remove", **changes: object) -> str:
    release = {
        **{"name": "blocks", "kind": "sizes", "attribute": "home", "largest": LARGEST},
        **{"at": list(DUE), "rho": "3/2"},
    }
    release |= changes.pop("release", {})  # type: ignore[call-overload]
    return study_toml(
        **{
            "name": "moves",
            "unit": "person",
            "neighbours": relation,
            "rho": 3,
            "periods": {"first": LABELS[0], "every": "month", "count": 3, **MARKER},
            "size": None if relation == "add_remove" else 800,
            "attributes": {"home": PLACE},
            "places": {"unit": "block", "regions": ["county", "tract"]},
            "releases": [{k: v for k, v in release.items() if v is not None}],
            "run": {"log": "sqlite:moves.db", "public": "sqlite:moves-public.db", "worker": False},
            **changes,
        }
    )


def region(place: int) -> tuple[str, str]:
    return f"c{place % 2}", f"t{place % 6}"


def homes() -> list[dict[int, int | None]]:
    """What people say in each month: everybody once, then those who move, or leave for good."""
    rng = np.random.default_rng(3)
    first = {p: int(h) for p, h in enumerate(rng.integers(0, PLACES - 10, PEOPLE))}
    moved: list[dict[int, int | None]] = [dict(first)]
    for _ in LABELS[1:]:
        movers = rng.choice(PEOPLE, 100, replace=False)
        places = rng.integers(0, PLACES - 10, 100)
        moved.append(
            {
                int(p): int(h) if i % 5 else None
                for i, (p, h) in enumerate(zip(movers, places, strict=True))
            }
        )
    return moved


def write_files(folder: Path) -> list[np.ndarray]:
    """The tables of places and reports; returns the true sizes by place after each month."""
    rows = ["place,county,tract", *(f"b{i:03},{','.join(region(i))}" for i in range(PLACES))]
    (folder / "places.csv").write_text("\n".join(rows))
    at: dict[int, int | None] = {}
    lines, sizes = ["person,period,home"], []
    for label, said in zip(LABELS, homes(), strict=True):
        at |= said
        for person, home in said.items():
            lines.append(f"p{person},{label},{NOWHERE if home is None else f'b{home:03}'}")
        there = [home for home in at.values() if home is not None]
        sizes.append(np.bincount(there, minlength=PLACES))
    (folder / "reports.csv").write_text("\n".join(lines))
    return sizes


@pytest.mark.parametrize("log", ["sqlite", "kafka"])
def test_people_who_move_and_the_sizes_of_their_places(
    log: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    text = study()
    if log == "kafka":
        place = f"kafka://{request.getfixturevalue('kafka')}/moves-{uuid.uuid4().hex}"
        text = text.replace("sqlite:moves.db", place)
        text = text.replace("sqlite:moves-public.db", f"{place}-public")
        text += "replication = 1\ninsecure = true\n"
    file, out = tmp_path / "moves.toml", tmp_path / "out"
    file.write_text(text)
    truth = write_files(tmp_path)
    if log == "kafka":
        json_output(capsys, "topics", file)

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
        assert np.abs(np.cumsum(got - np.bincount(sizes, minlength=LARGEST + 1))).max() <= 7
        tract = json_output(
            capsys, "estimate", file, "blocks", "mean", "--region", "c1/t3", "--period", label
        )
        own = sizes[[region(i) == ("c1", "t3") for i in range(PLACES)]]
        assert abs(tract["value"] - own.mean()) < 5 * tract["standard_error"]
    assert (tmp_path / "moves-snapshots").is_dir() or log == "kafka"
    page = tmp_path / "page.html"
    json_output(capsys, "page", file, page)
    assert "Sizes in c1/t3" in page.read_text()
