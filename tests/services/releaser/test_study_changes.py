"""A study file that changes after the first release: description and curator may, nothing else."""

from __future__ import annotations

import json
import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from kit.households import TEXT, HouseholdFolder, reports, roster, use_fit_in_rounds
from kit.panels import StudyFolder, script

from stream_dp.client import PublicLog
from stream_dp.errors import Inconsistent
from stream_dp.release.published_tables import DataSet
from stream_dp.services.commands.cli import main
from stream_dp.services.intake.group_tables import send_table
from stream_dp.services.intake.markers import close_marker
from stream_dp.services.storage.journal_checks import changed_keys
from stream_dp.study import Study
from stream_dp.studyfile import load_study, parse_study

CLOSED_PERIODS = 3
pytestmark = pytest.mark.usefixtures("handlers")


def describe(file: Path, words: str) -> None:
    """The study file under that description."""
    lines = [x for x in file.read_text().splitlines() if not x.startswith("description")]
    lines.insert(lines.index("[study]") + 1, f'description = "{words}"')
    file.write_text("\n".join(lines) + "\n")


def test_the_description_may_change(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Messages are published under the first description and its hash."""
    place = StudyFolder(folder / "small")
    describe(place.file, "first words")
    first, _ = load_study(place.file)
    for records, words in zip(
        script(), ("first words", "first words", "other words", "", "first words"), strict=False
    ):
        describe(place.file, words)
        place.send(records)
        capsys.readouterr()
        assert main(["run", str(place.file), "--until-idle"]) == 0
        out = capsys.readouterr().out
        changed = "study.description or study.curator has changed; the first one stays the"
        assert (changed in out) == (words != "first words")
        for command in ("verify", "status"):
            assert main([command, str(place.file)]) == 0
    with place.public() as log:
        public = PublicLog(log)
    assert public.study == first
    assert len({r.certificate.number for r in public.releases}) > CLOSED_PERIODS
    assert {r.certificate.study_hash for r in public.releases} == {first.hash}
    public.verify()


def test_the_curator_may_change(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The public declaration keeps the curator that it began with."""
    place = StudyFolder(folder / "small")
    text = place.file.read_text()
    first = None
    for records, name in zip(script(), ("First office", "Second office", ""), strict=False):
        table = f'[study.curator]\nname = "{name}"\nlicence = "CC0-1.0"\n' if name else ""
        place.file.write_text(text + table)
        first = first or load_study(place.file)[0]
        place.send(records)
        capsys.readouterr()
        assert main(["run", str(place.file), "--until-idle"]) == 0
        assert ("study.curator has changed" in capsys.readouterr().out) == (name != "First office")
        for command in ("verify", "status"):
            assert main([command, str(place.file)]) == 0
    with place.public() as log:
        public = PublicLog(log)
    assert public.study == first
    assert public.study.curator is not None
    assert public.study.curator.name == "First office"
    public.verify()


def test_a_worker_works_under_another_description(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job is recorded under the first description, and the worker knows its own file only."""
    use_fit_in_rounds(monkeypatch)
    homes = HouseholdFolder(folder / "homes")
    send_table(homes.setting, roster())
    for number, words in ((1, "first words"), (2, "other words")):
        describe(homes.file, words)
        homes.send([*reports(number), close_marker(number, 0)])
        homes.run()
    homes.work()
    homes.run()
    public = homes.public()
    assert [d.certificate.period for d in public.published if isinstance(d, DataSet)] == ["2021-02"]
    assert main(["verify", str(homes.file)]) == 0


def test_a_worker_of_another_study_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use_fit_in_rounds(monkeypatch)
    homes = HouseholdFolder(folder / "homes").prepare(2)
    homes.run()
    text = homes.file.read_text()
    homes.file.write_text(text.replace("rho = 0.6", "rho = 0.7"))
    with pytest.raises(Inconsistent, match=r"changed since its first record: study\.rho"):
        homes.work()
    homes.file.write_text(text)
    homes.work()
    homes.run()
    assert [d for d in homes.public().published if isinstance(d, DataSet)]


BEFORE = parse_study(tomllib.loads(TEXT.split("[run]")[0], parse_float=Decimal))


@pytest.mark.parametrize(
    ("old", "new", "keys"),
    [
        ('"homes"', '"houses"', "study.name"),
        ("rho = 0.6", "rho = 0.7", "study.rho"),
        ("delta = 1e-6", "delta = 1e-7\nids = { as_written = true }", "study.delta, study.ids"),
        ("count = 3", "count = 4", "study.periods.count"),
        ("size = 40", "size = 41", "study.population.size"),
        ("values = [0, 1]", "values = [0, 1, 2]", "attributes.work.values"),
        ("missing = 0", "missing = { carry = true, first = 0 }", "attributes.work.missing"),
        ("[attributes.income]", "[attributes.pay]", "attributes.income, attributes.pay"),
        ("most = 4", "most = 5", "groups.most"),
        ('["north", "south"]', '["north", "west"]', "groups.attributes.region.values"),
        ("width = 2", "width = 1\nfailure = 0.01", "releases.pairs.failure, releases.pairs.width"),
        ('at = ["2021-02"]', "every = 3", "releases.households.at, releases.households.every"),
        ('name = "pairs"', 'name = "pair"', "releases.pairs, releases.pair"),
    ],
)
def test_keys_are_named_as_the_study_file_has_them(old: str, new: str, keys: str) -> None:
    assert old in TEXT
    text = TEXT.split("[run]")[0].replace(old, new)
    if "[attributes.pay]" in new:
        text = text.replace('"income", ', '"pay", ')
    after = tomllib.loads(text, parse_float=Decimal)
    changed = changed_keys(canonical_of(BEFORE), canonical_of(parse_study(after)))
    expected = set(keys.split(", "))
    if "[attributes.pay]" in new:
        expected.add("releases.households.attributes")
    assert set(changed.split(", ")) == expected


def canonical_of(study: Study) -> dict[str, Any]:
    declared: dict[str, Any] = json.loads(study.canonical())
    return declared


def test_many_keys_and_a_changed_order() -> None:
    one = canonical_of(BEFORE)
    two = {**one, **{f"key{i}": i for i in range(20)}}
    assert changed_keys(one, two).endswith("study.key7 and 12 more")
    releases = [{"name": "a"}, {"name": "b"}]
    pair = [{**one, "releases": order} for order in (releases, releases[::-1])]
    assert changed_keys(*pair) == "the order of its releases"
