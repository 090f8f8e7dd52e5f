"""Certificates, public metrics, `status` and `verify` state the budget of the same ledger."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.examples import SHARED
from kit.households import HouseholdFolder, reports, roster, use_fit_in_rounds
from kit.panels import shared
from kit.studies import toml_lines

from stream_dp.log.message import read_messages
from stream_dp.planning.plan import plan_study
from stream_dp.services.commands.cli import main
from stream_dp.services.intake.group_tables import send_table
from stream_dp.services.intake.markers import close_marker
from stream_dp.services.releaser.metrics_listeners import PublicMetrics
from stream_dp.services.releaser.releaser import Releaser
from stream_dp.study.topics import RELEASES
from stream_dp.studyfile import parse_study

PERIODS = 3

RELATIONS = ("add_remove", "replace_one", "replace_in_place")


@st.composite
def releases(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Releases of everybody, of strata or of waves, each with its own rho."""
    declared = []
    for place in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["window", "cumulative", "joint"]))
        more: dict[str, Any] = {} if kind == "window" else {"event": ["high"]}
        if kind != "cumulative":
            more["width"] = draw(st.integers(1, 2))
        of = draw(st.sampled_from([{"strata": "region"}, "waves", None, None]))
        if of == "waves":
            of = {"waves": {"by": "region", "every": 1, "length": 2}}
        rho = str(Fraction(draw(st.integers(1, 6)), 20))
        declared.append({"name": f"r{place}", "kind": kind, "rho": rho, **more, **(of or {})})
    return declared


@st.composite
def studies(draw: st.DrawFn) -> dict[str, Any]:
    relation = draw(st.sampled_from(RELATIONS))
    listed = []
    for release in draw(releases()):
        capped = relation == "add_remove" or "strata" in release or "waves" in release
        listed.append({"attribute": "income", **release, **({"rows": 60} if capped else {})})
    declaration: dict[str, Any] = {
        "study": {
            "name": "homes",
            "unit": "person",
            "neighbours": relation,
            "rho": 10,
            "delta": "1/1000000",
            "periods": {"first": "2021-01", "every": "month", "count": PERIODS},
            "population": {} if relation == "add_remove" else {"size": 40},
        },
        "attributes": {
            "income": {"values": ["low", "high"], "missing": "absent"},
            "work": {"values": [0, 1], "missing": 0},
            "region": {"values": [0, 1], "missing": "absent", "fixed": True},
        },
        "releases": listed,
    }
    if relation == "replace_in_place":
        declaration["groups"] = {
            "unit": "household",
            "most": 4,
            "attributes": {"region": {"values": ["north", "south"]}},
        }
        batch = {"name": "households", "kind": "independent", "attributes": ["income", "work"]}
        listed.append({**batch, "every": draw(st.integers(1, 2)), "rho": "1/10"})
    declaration["study"]["rho"] = str(plan_study(parse_study(declaration)).total)
    return declaration


def text(declaration: dict[str, Any]) -> str:
    run = {"log": "sqlite:homes.db", "public": "sqlite:homes-public.db", "worker": False}
    return toml_lines({**declaration, "run": run})


def metrics(releaser: Releaser) -> dict[str, float]:
    return {
        family.name: family.samples[0].value
        for family in PublicMetrics(releaser.context.facts).collect()
    }


def ran(homes: HouseholdFolder) -> list[tuple[int, Fraction]]:
    """Runs until idle; the index and rho in the metrics after every publication."""
    seen: list[tuple[int, Fraction]] = []
    with homes.releaser() as releaser:

        def at(step: str) -> None:
            if step in ("published", "recovered"):
                facts, shown = releaser.context.facts.published, metrics(releaser)
                assert shown["stream_dp_rho_spent"] == float(facts.spent)
                left = releaser.plan.study.rho - facts.spent
                assert shown["stream_dp_rho_left"] == float(left) >= 0
                seen.append((facts.index, facts.spent))

        shared(releaser, at=at)
        releaser.run(until_idle=True)
    return seen


def asked(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, Any]:
    assert main([*map(str, words), "--json"]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def certified(homes: HouseholdFolder) -> dict[int, Fraction]:
    """The budget that is spent, as each public message states it, by its index."""
    with homes.releaser() as releaser:
        heads = [(m.index, m.head) for m in read_messages(releaser.public, RELEASES, "public log")]
    return {index: Fraction(head.get("rho_spent", 0)) for index, head in heads}


def check(
    homes: HouseholdFolder,
    capsys: pytest.CaptureFixture[str],
    seen: list[tuple[int, Fraction]],
    *,
    due: bool,
) -> None:
    """due: whether jobs are outstanding, whose charges only the journal has."""
    spent = certified(homes)
    assert all(rho == spent[index] for index, rho in seen), (seen, spent)
    total = homes.setting.study.rho
    values = [spent[index] for index in sorted(spent)]
    assert all(a <= b for a, b in pairwise(values))
    status = asked(capsys, "status", homes.file)
    assert Fraction(status["rho_total"]) == total
    decided = Fraction(status["rho_spent"])
    assert values[-1] <= decided <= total
    assert due or values[-1] == decided
    verified = asked(capsys, "verify", homes.file)["verified"]
    assert f"budget: {values[-1]} of {total} spent, as the certificates say" in verified
    assert any(line.endswith(f"charged as planned, {decided} spent") for line in verified)


def sent(homes: HouseholdFolder, number: int) -> None:
    homes.send([*reports(number), close_marker(number, 0)])


@settings(
    max_examples=5,
    deadline=None,
    suppress_health_check=SHARED,
)
@given(studies())
def test_all_who_say_what_is_spent_say_the_same(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    declaration: dict[str, Any],
) -> None:
    use_fit_in_rounds(monkeypatch)
    homes = HouseholdFolder(Path(mkdtemp(dir=folder)) / "study", text(declaration))
    batches = bool(homes.setting.study.batches)
    if batches:
        send_table(homes.setting, roster())
    seen: list[tuple[int, Fraction]] = []
    for number in range(1, PERIODS + 1):
        sent(homes, number)
        seen += ran(homes)  # begun anew each time: what it says is what it said
        check(homes, capsys, seen, due=batches)
    if batches:
        homes.work()
        seen += ran(homes)
    check(homes, capsys, seen, due=False)
    assert seen[-1][1] == homes.setting.study.rho  # the plan's total


def test_strata_and_waves_together_never_pass_the_budget(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two strata of rho 1 and two waves of rho 1/2, with a budget of 3/2."""
    window = {"kind": "window", "attribute": "income", "width": 1, "rows": 60}
    declaration = {
        "study": {
            "name": "homes",
            "unit": "person",
            "neighbours": "replace_one",
            "rho": "3/2",
            "delta": "1/1000000",
            "periods": {"first": "2021-01", "every": "month", "count": PERIODS},
            "population": {"size": 40},
        },
        "attributes": {
            "income": {"values": ["low", "high"], "missing": "absent"},
            "work": {"values": [0, 1], "missing": 0},
            "region": {"values": [0, 1], "missing": "absent", "fixed": True},
            "wave": {"values": [1, 2], "missing": "absent", "fixed": True},
        },
        "releases": [
            {**window, "name": "s", "rho": 1, "strata": "region"},
            {
                **window,
                "name": "w",
                "rho": "1/2",
                "waves": {"by": "wave", "every": 1, "length": 2},
            },
        ],
    }
    homes, seen = HouseholdFolder(folder / "layers", text(declaration)), []
    for number in range(1, PERIODS + 1):
        sent(homes, number)
        seen += ran(homes)
    check(homes, capsys, seen, due=False)
    assert seen[-1][1] == Fraction(3, 2)
