"""A product, strata and waves over eight periods, end to end: killed, started again, verified."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from kit.households import NEVER, HouseholdFolder
from kit.matrices import seeds
from kit.panels import Noiseless
from kit.rejected_cells import reasons_of
from kit.strata import Model
from kit.studies import STEPS, attribute, cumulative, joint, study_toml, window

from stream_dp.answers.query import TotalQuery, parse_query
from stream_dp.log.log import Record
from stream_dp.log.message import parts_in_records
from stream_dp.planning.plan import plan_study
from stream_dp.population.report_decoding import Decoder
from stream_dp.release.published_panels import read_estimates
from stream_dp.services.commands.cli import main
from stream_dp.services.intake.markers import close_marker
from stream_dp.services.storage import journal_checks
from stream_dp.study import Study
from stream_dp.study.topics import DEAD_LETTERS, RELEASES, REPORTS

PERIODS, PEOPLE = 8, 60
TEXT = study_toml(
    name="layers",
    rho=2,
    periods={**STEPS, "count": PERIODS},
    attributes={
        "poor": attribute([0, 1], missing="absent"),
        "job": attribute(["yes", "no"], missing={"carry": True, "first": "no"}),
        "region": attribute(["north", "south"], missing="absent", fixed=True),
        "wave": attribute([1, 2, 3], missing="absent", fixed=True),
    },
    releases=[
        window("both", ["poor", "job"], width=2, rho=0.2),
        window("poor", "poor", width=3, strata="region", rows=40, rho=0.4),
        cumulative(
            "times",
            ["poor", "job"],
            ["poor=1&job=no", "poor=absent&job=no"],
            strata="region",
            rows=40,
            size_share=0.2,
            rho=0.4,
        ),
        joint(
            "spells",
            "poor",
            width=2,
            event=[1],
            waves={"by": "wave", "every": 2, "length": 4},
            rows=30,
            rho=0.4,
        ),
    ],
    run={"log": "sqlite:homes.db", "public": "sqlite:homes-public.db"},
)


def reports() -> Iterator[tuple[int, dict[str, Any]]]:
    """(Period in which it comes, report): late entry, leaving, contradicted and missing strata."""
    rng = np.random.default_rng(3)
    for number in range(1, PERIODS + 1):
        for person in range(PEOPLE):
            if not 1 + person % 5 <= number <= PERIODS - person % 7:
                continue
            values: dict[str, Any] = {"poor": int(rng.integers(2))}
            if rng.random() < 0.7:
                values["job"] = ["yes", "no"][rng.integers(2)]
            if rng.random() < 0.4:
                # Some change their word: the first one holds.
                values["region"] = ["north", "south"][(person + (rng.random() < 0.1)) % 2]
                values["wave"] = 1 + person % 3
            yield number, {"person": f"p{person}", "period": str(number), "values": values}


@pytest.fixture
def homes(memory: Path, request: pytest.FixtureRequest) -> HouseholdFolder:
    household_folder = HouseholdFolder(memory / request.node.name, TEXT)
    for number in range(1, PERIODS + 1):
        payloads = [msgspec.json.encode(report) for n, report in reports() if n == number]
        household_folder.send(
            [
                *(
                    Record(topic=REPORTS, value=data, key=None, headers=(), partition=0)
                    for data in payloads
                ),
                close_marker(number, 0),
            ]
        )
    return household_folder


def check_all(homes: HouseholdFolder, capsys: pytest.CaptureFixture[str]) -> None:
    """The study is over and sound, its public log is the journal's, and panels only grow."""
    entries, study = homes.entries(), homes.setting.study
    assert [entry.number for entry in entries] == list(range(PERIODS + 1))
    with homes.log() as log:
        ledger = journal_checks.check_journal(entries, plan_study(study), log.describe(REPORTS))
        reasons = reasons_of(log.read(DEAD_LETTERS, {0: 0}, 10**6, 0).records)
    assert ledger.spent == plan_study(study).total == Fraction(2 + 4 + 4 + 4, 10)
    assert [r.value for e in entries for r in e.public_records()] == [
        row[4] for row in homes.rows(RELEASES)
    ]
    cells = entries[-1].message.head["accounting"]
    assert dict(reasons) == cells["rejected"]
    assert set(cells["rejected"]) == {"full", "fixed"}
    assert cells["received"] == cells["accepted"] + sum(cells["rejected"].values())
    source = f"sqlite:{homes.folder / 'homes-public.db'}"
    for place in (str(homes.file), source):
        assert main(["verify", place]) == 0
    assert main(["estimate", source, "both", "at-least 1 of last 2 poor=1&job=no"]) == 0
    assert main(["estimate", source, "times-north", "total at-least 2", "--count"]) == 0
    capsys.readouterr()
    public = homes.public()
    for release in study.releases:
        first, last = study.span(release)
        panel = public.panel(release.name)
        assert panel.periods == study.periods.labels[first - 1 : last]


@seeds(1, 0, 2)
def test_killed_and_started_again(
    homes: HouseholdFolder, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    rng, seen = random.Random(seed), []
    while not homes.releases_to(rng.randrange(8, 40)):
        now = [row[4] for row in homes.rows(RELEASES)] if homes.entries() else []
        assert now[: len(seen)] == seen
        seen = now
    assert homes.kills > 3
    assert homes.releases_to(NEVER)
    check_all(homes, capsys)


def test_without_noise_estimates_are_the_true_counts(
    homes: HouseholdFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert homes.run(source=Noiseless())
    study, entries = homes.setting.study, homes.entries()
    decoder = Decoder(study, bytes.fromhex(entries[0].message.head["key"]))
    model = Model(study, lambda person: tuple(decoder.hashes([person])[0].tolist()))
    sums: dict[str, Any] = {}
    seen: Counter[str] = Counter()
    for number, entry in enumerate(entries[1:], 1):
        for offset, (when, report) in enumerate(reports()):
            if when == number:
                model.take(number, (0, offset), report)
        true = {name: np.array(counts) for name, counts in model.close(number).items()}
        for release in study.releases:
            sent = [r for r in entry.public_records() if _of(r, release.name)]
            if release.kind != "window":
                rises = true[release.name][-_length(study, release.name) - 1 :]
                sums[release.name] = sums.get(release.name, 0) + rises
            for row in read_estimates(parts_in_records(sent)).to_pylist() if sent else ():
                expected = _expected(
                    study=study, name=release.name, text=row["query"], true=true, sums=sums
                )
                if expected is not None:
                    assert row["value"] == pytest.approx(expected, abs=1e-6)
                    seen[release.name] += 1
    assert all(seen[release.name] > 15 for release in study.releases)
    check_all(homes, capsys)


def _of(record: Record, name: str) -> bool:
    return (record.key or b"").endswith(f"/{name}".encode())


def _length(study: Study, name: str) -> int:
    first, last = study.span(study.release(name))
    return last - first + 1


def _expected(
    study: Study, name: str, text: str, true: dict[str, Any], sums: dict[str, Any]
) -> float | None:
    """The true answer to an estimate's query; None for what `rows` stand for."""
    release = study.release(name)
    alphabet = study.alphabet(release)
    if text == "people":
        return float(sums[name][-1])
    query = parse_query(text, alphabet.name, alphabet.values)
    if isinstance(query, TotalQuery):
        return float(sums[name][query.threshold - 1])
    assert release.kind != "cumulative"
    bins = len(alphabet.values) ** release.width
    if release.rows is not None and query.over(bins)[-1]:
        return None
    return float(true[name][:bins] @ query.over(bins))
