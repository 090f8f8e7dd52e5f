"""A tiny study of each kind of release, run to its end on logs in memory."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pyarrow as pa
import pytest

import stream_dp
from stream_dp.log.memory import MemoryLog
from stream_dp.services.releaser import study_in_memory
from stream_dp.study import Study
from stream_dp.study.families import Family, Kind

from .run_results import kept

PEOPLE, LABELS = 60, ("2026-01", "2026-02")
TABLE = {"attributes": ["work", "sex"], "every": 2}
RELEASES: dict[Family, dict[str, object]] = {
    Family.WINDOW: {"attribute": "work", "width": 2},
    Family.CUMULATIVE: {"attribute": "work", "event": ["yes"]},
    Family.JOINT: {"attribute": "work", "width": 2, "event": ["yes"]},
    Family.PEOPLE: {**TABLE, "every": 1, "rho": 10},
    Family.HOUSEHOLDS: {**TABLE, "every": 1, "rho": 10},
    Family.EVENTS: {
        **{"attributes": ["work", "sex"], "every": 2},
        "events": {"unit": "trip", "columns": ["mode", "purpose"], "most": 2},
    },
    Family.SIZES: {"attribute": "home", "largest": 5, "every": 2},
}
HOUSEHOLDS = {"unit": "household", "most": 2, "attributes": {"region": {"values": ["n", "s"]}}}


def study_of(kind: Kind) -> dict[str, object]:
    """The smallest declaration with one release of this kind, named `answers`."""
    synthesizer = kind.data_set
    relation = "replace_one" if synthesizer is None else synthesizer.relations[-1]
    study: dict[str, object] = {
        "study": {
            **{"name": "kinds", "unit": "person", "neighbours": relation, "rho": 20},
            **{"delta": "1/1000000", "population": {"size": PEOPLE}},
            "periods": {"first": LABELS[0], "every": "month", "count": len(LABELS)},
        },
        "attributes": {
            "work": {"values": ["no", "yes"], "missing": "no"},
            "sex": {"values": ["f", "m"], "missing": "f"},
        },
        "releases": [{"name": "answers", "kind": kind.value, "rho": 20, **RELEASES[kind.family]}],
    }
    if synthesizer is not None and "first" in synthesizer.settings:
        study["releases"][0] |= {"first": "2/3"}  # type: ignore[index]
    if synthesizer is not None and "per_round" in synthesizer.settings:
        study["releases"][0] |= {"rounds": 1, "per_round": 1}  # type: ignore[index]
    if kind.value.startswith("hpd-"):
        study["releases"][0] |= {"rows": 50}  # type: ignore[index]
    if kind.family is Family.HOUSEHOLDS:
        study["groups"] = HOUSEHOLDS
    if kind.family is Family.EVENTS:
        study["attributes"] |= {  # type: ignore[operator]
            "mode": {"values": ["walk", "car"], "missing": "absent", "slots": 2},
            "purpose": {"values": ["job", "fun"], "missing": "absent", "slots": 2},
        }
    if kind.family is Family.SIZES:
        study["places"] = {"unit": "block", "regions": ["county"]}
        study["attributes"] = {"home": {"place": True, "missing": "absent"}}
    return study


@cache
def published(kind: Kind) -> MemoryLog:
    """The public log of the study of this kind at its end, with repeatable noise."""
    log = MemoryLog()
    log._topics = kept(f"published {kind}", lambda: run_to_its_end(kind)._topics)
    return log


def run_to_its_end(kind: Kind) -> MemoryLog:
    """The public log of the study of this kind, run now."""
    study = study_of(kind)
    rng = np.random.default_rng(3)
    rows = len(LABELS) * PEOPLE
    columns = {
        "person": [f"p{i % PEOPLE}" for i in range(rows)],
        "period": [LABELS[i // PEOPLE] for i in range(rows)],
    }
    values = {"work": ["no", "yes"], "sex": ["f", "m"], "home": ["a", "b", "c"]}
    for name, attribute in study["attributes"].items():  # type: ignore[attr-defined]
        if "slots" not in attribute:
            columns[name] = rng.choice(values[name], rows).tolist()
        for number in range(1, attribute.get("slots", 0) + 1):
            slot = rng.choice([*attribute["values"], None], rows).tolist()
            columns[f"{name}_{number}"] = slot
    tables: dict[str, pa.Table] = {}
    if "groups" in study:
        homes = range(PEOPLE // 2)
        tables["groups"] = pa.table({"group": [*homes], "region": ["n", "s"] * (PEOPLE // 4)})
        people = columns["person"][:PEOPLE]
        tables["members"] = pa.table({"person": people, "group": [i // 2 for i in range(PEOPLE)]})
    if "places" in study:
        tables["places"] = pa.table({"place": ["a", "b", "c"], "county": ["n", "n", "s"]})
    return public_log_of(stream_dp.parse_study(study), pa.table(columns), **tables)


def public_log_of(study: Study, reports: pa.Table, **tables: pa.Table) -> MemoryLog:
    """The public log of a study at its end, with repeatable noise. tables: of `run_study`."""
    logs: list[MemoryLog] = []

    class KeptLog(MemoryLog):
        def __init__(self, *arguments: object, **named: object) -> None:
            super().__init__(*arguments, **named)  # type: ignore[arg-type]
            logs.append(self)

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(study_in_memory, "MemoryLog", KeptLog)
        stream_dp.run_study(study, reports, simulation_seed=1, **tables)
    return logs[1]
