"""A hundred thousand reports: fixed values, strata, joint releases, overflow, data sets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from kit import parts_of_tables
from kit.households import report
from kit.panels import fix_secrets
from kit.parts_of_tables import RUN, TablesFolder, TablesInParts
from kit.studies import MARKER, MONTHS, attribute, cumulative, joint, study_toml, window

from stream_dp.log.log import Record
from stream_dp.services.intake.markers import close_marker
from stream_dp.services.storage.journal import closes

EACH = 34_000  # reports of a period


def text(size: int | None) -> str:
    rows = {"rows": 100}
    layer = {} if size else rows
    return study_toml(
        name="homes",
        neighbours="replace_one" if size else "add_remove",
        rho=100,
        periods={**MONTHS, **MARKER},
        size=size,
        attributes={
            "region": attribute(["n", "s"], missing="absent", fixed=True),
            "work": attribute(["no", "yes"], missing="absent"),
            "income": {
                "number": {"least": 0, "most": 90_000, "step": 10},
                "bins": [1000, 50_000],
                "missing": "absent",
            },
        },
        releases=[
            window("pairs", ["region", "work"], width=2, rho=1, **layer),
            window("layers", "work", width=2, rho=1, strata="region", **rows),
            cumulative("years", "work", ["yes"], rho=1, **layer),
            joint("both", "work", width=2, event=["yes"], rho=1, where={"region": "n"}, **rows),
            {
                **{"name": "table", "kind": "rap", "every": 1, "rho": 4},
                **{"attributes": ["region", "work", "income"], "labels": ["work"]},
            },
        ],
        run=RUN,
    )


def reports(number: int) -> list[Record]:
    rng = np.random.default_rng(number)
    people = rng.integers(0, 25_000 + 5_000 * number, EACH).tolist()
    return [
        *(
            report(
                f"p{p}",
                number,
                region="ns"[(p + (i % 50 == 0)) % 2],  # some contradict what they said
                work=["no", "yes", None, "perhaps"][int(rng.integers(4))],
                income=int(rng.integers(0, 9_001)) * 10 + (i % 100 == 0),
            )
            for i, p in enumerate(people)
        ),
        close_marker(number, 0),
    ]


def closed(place: TablesFolder, processes: int = 1) -> TablesFolder:
    how = {"aggregator": {"processes": processes, "most": 5_000}}
    for number in (1, 2, 3):
        place.send(reports(number))
        place.run(**(how if isinstance(place, TablesInParts) else {}))
    return place


@pytest.mark.slow
@pytest.mark.parametrize("size", [20_000, None])
def test_the_same_as_in_one_process(
    size: int | None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fix_secrets(monkeypatch)
    monkeypatch.setitem(parts_of_tables.TEXTS, "many", text(size))
    here = closed(TablesFolder(folder / "here", name="many"))
    rejected = closes(here.entries())[-1].input.accounting.rejected
    assert ("full" in rejected) == (size is not None)
    assert {"fixed", "value", "step"} <= rejected.keys()
    for parts, processes in ((1, 1), (16, 2), (64, 3)):
        place = TablesInParts(folder / str(parts), name="many", parts=parts)
        assert closed(place, processes).outcome() == here.outcome()
        assert answers(place) == answers(here)


def answers(place: TablesFolder) -> dict[str, list[int]]:
    """All noiseless measurements of all panels."""
    public = place.public()
    names = [release.name for release in place.setting.study.releases]
    return {name: public.measurements(name)["value"].to_pylist() for name in names}
