"""What is spent: certificates, public metrics, `status` and `verify` read one composed ledger."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kit.households import Homes, in_rounds, reports, roster
from kit.killed import in_memory

from stream_dp.log.message import read_messages
from stream_dp.plan import plan_study
from stream_dp.release.panels import TOPIC
from stream_dp.services.cli import main
from stream_dp.services.groups.roster import send_roster
from stream_dp.services.markers import close_marker
from stream_dp.services.releaser.listen import PublicMetrics
from stream_dp.services.releaser.releaser import Releaser
from stream_dp.studyfile import parse_study

PERIODS = 3
RELATIONS = ("add_remove", "replace_one", "replace_in_place")


@st.composite
def releases(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Some of everybody, of strata or of waves; each with a rho of its own."""
    found = []
    for place in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["window", "cumulative", "joint"]))
        more: dict[str, Any] = {} if kind == "window" else {"event": ["high"]}
        if kind != "cumulative":
            more["width"] = draw(st.integers(1, 2))
        of = draw(st.sampled_from([{"strata": "region"}, "waves", None, None]))
        if of == "waves":
            of = {"waves": {"by": "region", "every": 1, "length": 2}}
        rho = str(Fraction(draw(st.integers(1, 6)), 20))
        found.append({"name": f"r{place}", "kind": kind, "rho": rho, **more, **(of or {})})
    return found


@st.composite
def studies(draw: st.DrawFn) -> dict[str, Any]:
    relation = draw(st.sampled_from(RELATIONS))
    listed = []
    for release in draw(releases()):
        capped = relation == "add_remove" or "strata" in release or "waves" in release
        listed.append({"attribute": "income", **release, **({"rows": 60} if capped else {})})
    made: dict[str, Any] = {
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
        made["groups"] = {
            "unit": "household",
            "most": 4,
            "attributes": {"region": {"values": ["north", "south"]}},
        }
        batch = {"name": "households", "kind": "independent", "attributes": ["income", "work"]}
        listed.append({**batch, "every": draw(st.integers(1, 2)), "rho": "1/10"})
    made["study"]["rho"] = str(plan_study(parse_study(made)).total)
    return made


def toml(value: Any) -> str:
    """A declaration's tables as inline TOML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k} = {toml(v)}" for k, v in value.items()) + "}"
    return json.dumps(value) if not isinstance(value, list) else f"[{', '.join(map(toml, value))}]"


def text(made: dict[str, Any]) -> str:
    run = {"log": "sqlite:homes.db", "public": "sqlite:homes-public.db", "worker": False}
    return "\n".join(f"{key} = {toml(value)}" for key, value in {**made, "run": run}.items())


def metrics(releaser: Releaser) -> dict[str, float]:
    return {
        family.name: family.samples[0].value for family in PublicMetrics(releaser.facts).collect()
    }


def ran(homes: Homes) -> list[tuple[int, Fraction]]:
    """Run until idle: the metrics' index and rho after every publication."""
    seen: list[tuple[int, Fraction]] = []
    with homes.releaser() as releaser:

        def at(step: str) -> None:
            if step in ("published", "recovered"):
                held, shown = releaser.facts.published, metrics(releaser)
                assert shown["stream_dp_rho_spent"] == float(held.spent)
                left = releaser.plan.study.rho - held.spent
                assert shown["stream_dp_rho_left"] == float(left) >= 0
                seen.append((held.index, held.spent))

        releaser.at = at
        releaser.run(until_idle=True)
    return seen


def asked(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, Any]:
    assert main([*map(str, words), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def certified(homes: Homes) -> dict[int, Fraction]:
    """By the index of a public message, what it says is spent."""
    with homes.releaser() as releaser:
        heads = [(m.index, m.head) for m in read_messages(releaser.public, TOPIC, "public log")]
    return {index: Fraction(head.get("rho_spent", 0)) for index, head in heads}


def check(
    homes: Homes, capsys: pytest.CaptureFixture[str], seen: list[tuple[int, Fraction]], *, due: bool
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


@pytest.fixture
def folder() -> Iterator[Path]:
    with in_memory() as folder:
        yield folder


def sent(homes: Homes, number: int) -> None:
    homes.send([*reports(number), close_marker(number, 0)])


@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(studies(), st.integers(0, 10**9))
def test_all_who_say_what_is_spent_say_the_same(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    made: dict[str, Any],
    name: int,
) -> None:
    in_rounds(monkeypatch)
    homes = Homes(folder / str(name) / str(len(list(folder.iterdir()))), text(made))
    batches = bool(homes.setting.study.batches)
    if batches:
        send_roster(homes.setting, roster())
    seen: list[tuple[int, Fraction]] = []
    for number in range(1, PERIODS + 1):
        sent(homes, number)
        seen += ran(homes)  # begun anew each time: what it says is what it said
        check(homes, capsys, seen, due=batches)
    if batches:
        homes.work()
        seen += ran(homes)
    check(homes, capsys, seen, due=False)
    assert seen[-1][1] == homes.setting.study.rho  # which is that of the whole plan


def test_strata_and_waves_together_never_pass_the_budget(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two strata of rho 1 and two waves of rho 1/2, of a budget of 3/2: as certified."""
    window = {"kind": "window", "attribute": "income", "width": 1, "rows": 60}
    made = {
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
    homes, seen = Homes(folder / "layers", text(made)), []
    for number in range(1, PERIODS + 1):
        sent(homes, number)
        seen += ran(homes)
    check(homes, capsys, seen, due=False)
    assert seen[-1][1] == Fraction(3, 2)
