"""Tables month after month: shares of rho, fused fits that go on after a kill, and what is said."""

from __future__ import annotations

from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pyarrow.parquet
import pytest
from kit.commands import json_output, refusal
from kit.studies import attribute
from kit.workers import killed_and_again
from kit.workers_study import workers_toml

from stream_dp.client import PublicLog
from stream_dp.services.storage.deployment import Deployment

PEOPLE = 400
LABELS = ("2021-01", "2021-02", "2021-03")
WORK = ("none", "some", "full")
TABLE = {"name": "people", "kind": "mixture", "attributes": ["sex", "work"], "every": 1}


def study(**keys: object) -> str:
    return workers_toml(
        rho=6,
        months=3,
        relation="add_remove",
        attributes={
            "sex": attribute(["f", "m"], missing="absent"),
            "work": attribute(WORK, missing="absent"),
        },
        releases=[{**TABLE, "rho": 2, "first": "1/2", **keys}],
    )


def begun(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> Path:
    """A study whose months are all closed and whose tables are due."""
    file = tmp_path / "workers.toml"
    file.write_text(text)
    rows = ["person,period,sex,work"]
    for label in LABELS:
        rows += [f"p{i},{label},{'f,some' if i % 4 else 'm,full'}" for i in range(PEOPLE)]
    (tmp_path / "reports.csv").write_text("\n".join(rows))
    json_output(capsys, "send", file, tmp_path / "reports.csv")
    json_output(capsys, "close", file, LABELS[-1], "--yes")
    assert json_output(capsys, "run", file, "--until-idle") == {"horizon_reached": False}
    return file


@pytest.mark.parametrize("kind", ["mixture", "match"])
def test_each_month_is_fitted_with_those_before(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("jax")
    file = begun(tmp_path, capsys, study(kind=kind))
    (planned,) = json_output(capsys, "check", file)["releases"]
    charges = [Fraction(rho) for rho in planned["charges"].values()]
    assert charges == [3, Fraction(3, 2), Fraction(3, 2)]
    if kind == "mixture":  # two jobs of five rounds, and the third, which is killed and goes on
        killed_and_again(file, 3 * 5, before=3 * 5 - 1)
    else:
        json_output(capsys, "worker", file, "--until-idle")
    assert json_output(capsys, "run", file, "--until-idle") == {"horizon_reached": True}
    notes, costs = [], []
    for label in LABELS:
        out = tmp_path / label
        json_output(capsys, "export", file, "people", out, "--period", label)
        table = pyarrow.parquet.read_table(out / "people.parquet")
        assert abs(table.num_rows - PEOPLE) < 40
    with closing(Deployment.load(file).public(readonly=True)) as log:
        for label in LABELS:
            certificate = PublicLog(log).data_set("people", label).certificate
            costs.append(certificate.rho)
            notes.append(certificate.ancestors)
    assert costs == charges
    fused = dict(zip(LABELS, charges, strict=True))
    assert notes == [{label: fused[label] for label in LABELS[:n]} for n in range(3)]
    json_output(capsys, "verify", file)


def test_without_fusion_all_tables_are_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "workers.toml"
    alone = study(fuse=False).replace('first = "1/2"\n', "")
    assert "first" not in alone.partition("[[releases]]")[2]
    file.write_text(alone)
    (planned,) = json_output(capsys, "check", file)["releases"]
    assert {*planned["charges"].values()} == {"2"}
    for text, fault in (
        (study(fuse=False), "first: tables that are not fused all cost the same"),
        (study(every=2), "first: there is one table alone"),
        (study(first="1"), "first: must lie between 0 and 1"),
        (study(fuse=3), "fuse: must be true or false"),
    ):
        file.write_text(text)
        assert fault in refusal(capsys, 2, "check", file)


@pytest.mark.parametrize(("months", "first"), [(12, "1/5"), (5, "1/5"), (3, "1/3"), (2, "1/2")])
def test_by_default_the_first_table_costs_a_fifth(
    months: int, first: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "workers.toml"
    text = study().replace('first = "1/2"\n', "").replace("count = 3", f"count = {months}")
    file.write_text(text.replace("rho = 6", f"rho = {2 * months}"))
    (planned,) = json_output(capsys, "check", file)["releases"]
    charges = [Fraction(rho) for rho in planned["charges"].values()]
    assert charges[0] == Fraction(first) * sum(charges)
    assert sum(charges) == 2 * months
    assert len({*charges[1:]}) == 1
